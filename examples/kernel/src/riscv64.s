# OpenSBI enters in supervisor mode, with translation and interrupts off. a0 is the hart, a1 the
# device tree.
.section .text.boot, "ax"
.global start
start:
    la sp, stack_end
    la t0, trap_entry; csrw stvec, t0
    call kernel_main

# An interrupt's entry saves the registers that Rust code may change.
.macro registers op
    \op ra, 0(sp); \op t0, 8(sp); \op t1, 16(sp); \op t2, 24(sp)
    \op t3, 32(sp); \op t4, 40(sp); \op t5, 48(sp); \op t6, 56(sp)
    \op a0, 64(sp); \op a1, 72(sp); \op a2, 80(sp); \op a3, 88(sp)
    \op a4, 96(sp); \op a5, 104(sp); \op a6, 112(sp); \op a7, 120(sp)
.endm
.balign 4
trap_entry:
    addi sp, sp, -128
    registers sd
    call trap
    # Clear a reservation of the handler: the interrupted code must not use it.
    ld ra, (sp); sc.d zero, ra, (sp)
    registers ld
    addi sp, sp, 128
    sret

.section .bss.boot, "aw", @nobits
    .balign 16
    .skip 0x10000
stack_end:
