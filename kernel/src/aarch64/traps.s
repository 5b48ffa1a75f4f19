// Entry of all exceptions and interrupts. It calls rust_trap with a Frame (traps.rs) on this
// CPU's trap stack, SP_EL1, because the normal stack, SP_EL0, may be full.
//
// Only an exception can occur in a trap, and it does not return. It starts again at the end of
// the trap stack, because that stack may be full. It keeps no register except sp.

.macro entry kind
    .balign 128
    sub sp, sp, #FRAME_SIZE
    stp x0, x1, [sp]
    mrs x0, sp_el0
    mov x1, #\kind
    b save
.endm

.macro nested kind
    .balign 128
    mov x1, sp
    mrs x0, tpidr_el1
    add x0, x0, #1
    ldr x2, =TRAP_STACK_STRIDE
    mul x0, x0, x2
    adrp x2, trap_stacks
    add x0, x0, x2
    sub sp, x0, #FRAME_SIZE
    mov x0, x1
    mov x1, #\kind
    b save
.endm

.section .text
.balign 2048
.global vectors
vectors:
    entry 0                         // synchronous, from code on the normal stack
    entry 1                         // IRQ
    entry 2                         // FIQ
    entry 3                         // SError
    nested 0                        // the same, from a trap
    nested 1
    nested 2
    nested 3

    .balign 128
    // x0 = sp of the interrupted code, x1 = kind.
save:
    stp x2, x3, [sp, #16]
    stp x4, x5, [sp, #32]
    stp x6, x7, [sp, #48]
    stp x8, x9, [sp, #64]
    stp x10, x11, [sp, #80]
    stp x12, x13, [sp, #96]
    stp x14, x15, [sp, #112]
    stp x16, x17, [sp, #128]
    stp x18, x30, [sp, #144]
    stp x0, x1, [sp, #160]
    mov x0, sp
    bl rust_trap
    ldp x0, x1, [sp]
    ldp x2, x3, [sp, #16]
    ldp x4, x5, [sp, #32]
    ldp x6, x7, [sp, #48]
    ldp x8, x9, [sp, #64]
    ldp x10, x11, [sp, #80]
    ldp x12, x13, [sp, #96]
    ldp x14, x15, [sp, #112]
    ldp x16, x17, [sp, #128]
    ldp x18, x30, [sp, #144]
    add sp, sp, #FRAME_SIZE
    eret                            // also clears the exclusive monitor
.ltorg
