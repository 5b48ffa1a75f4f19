# All exceptions and interrupts lead to rust_trap, with a Frame (traps.rs) on this CPU's
# trap stack, because the other one may be full.
#
# sscratch is the trap stack's end, and 0 while a trap is dealt with. Only an exception can
# happen then, and no exception returns: it begins at that stack's end again, for it may be
# this one that is full, and leaves nothing of the registers but sp.

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
    # What was interrupted between a load-reserved and its store-conditional must not find
    # the reservation of one that failed in here (unprivileged specification, "Zalrsc":
    # any store-conditional gives it up).
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
