# Entry of all exceptions and interrupts. It calls rust_trap with a Frame (traps.rs) on this
# CPU's trap stack, because the normal stack may be full.
#
# sscratch is the trap stack's end, and 0 while a trap is handled. Only an exception can occur
# in a trap, and it does not return. It starts again at the end of the trap stack, because
# that stack may be full. It keeps no register except sp.

.section .text
.option push
.option norelax
.balign 4
.global trap_entry
trap_entry:
    csrrw sp, sscratch, sp
    bnez sp, 1f
    addi t0, tp, 1
    li t1, TRAP_STACK_STRIDE
    mul t0, t0, t1
    la sp, trap_stacks
    add sp, sp, t0
1:  addi sp, sp, -FRAME_SIZE
    sd ra, 0(sp)
    sd t0, 8(sp)
    sd t1, 16(sp)
    sd t2, 24(sp)
    sd t3, 32(sp)
    sd t4, 40(sp)
    sd t5, 48(sp)
    sd t6, 56(sp)
    sd a0, 64(sp)
    sd a1, 72(sp)
    sd a2, 80(sp)
    sd a3, 88(sp)
    sd a4, 96(sp)
    sd a5, 104(sp)
    sd a6, 112(sp)
    sd a7, 120(sp)
    csrrw t0, sscratch, zero
    sd t0, 128(sp)
    mv a0, sp
    call rust_trap
    # The interrupted code may be between a load-reserved and its store-conditional. It must
    # not use a reservation that rust_trap left. Any store-conditional clears a reservation
    # (unprivileged specification, "Zalrsc").
    addi t0, sp, 128
    ld t1, (t0)
    sc.d zero, t1, (t0)
    addi t0, sp, FRAME_SIZE
    csrw sscratch, t0
    ld ra, 0(sp)
    ld t0, 8(sp)
    ld t1, 16(sp)
    ld t2, 24(sp)
    ld t3, 32(sp)
    ld t4, 40(sp)
    ld t5, 48(sp)
    ld t6, 56(sp)
    ld a0, 64(sp)
    ld a1, 72(sp)
    ld a2, 80(sp)
    ld a3, 88(sp)
    ld a4, 96(sp)
    ld a5, 104(sp)
    ld a6, 112(sp)
    ld a7, 120(sp)
    ld sp, 128(sp)
    sret
.option pop
