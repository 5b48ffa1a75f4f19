# From the firmware to Rust.
#
# RISC-V SBI (9.1, "Hart start"; the first hart alike): supervisor mode, translation and
# interrupts off, a0 = this hart's id, a1 = the device tree on the first hart.
#
# All come here, and the first to come is the first CPU. What hart_start was given is not
# relied on: OpenSBI 1.1 lets a hart go before it has noted where to and with what, and one
# that looks just then goes where the first hart went.

.section .text.boot, "ax"
.option push
.option norelax
.global start
start:
    la t0, first_is_here
    li t1, 1
    amoswap.w.aqrl t0, t1, (t0)
    bnez t0, other

    # Not every loader clears it.
    la t0, __bss_start
    la t1, __bss_end
1:  bgeu t0, t1, 2f
    sd zero, (t0)
    addi t0, t0, 8
    j 1b
2:  mv a2, a1
    li a1, 0
    j enter_rust

    # Its number is where cpus.rs has put its id before it was started.
other:
    la t0, HARTS
    li a1, 0
    li t2, MAX_CPUS
1:  ld t1, (t0)
    beq t1, a0, 2f
    addi t0, t0, 8
    addi a1, a1, 1
    bltu a1, t2, 1b
    j other
2:  fence r, rw                 # what it is to find was there before its id
    li a2, 0

# a0 = hart id, a1 = number, a2 = device tree.
enter_rust:
    csrci sstatus, 2            # SIE: no interrupts
    csrw sie, zero
    li t0, 0x6000               # FS: no floating point; traps.s saves none of it
    csrc sstatus, t0
    mv tp, a1
    la t0, trap_entry
    csrw stvec, t0

    # The two stacks that go with the number, both growing down.
    addi t2, a1, 1
    li t1, TRAP_STACK_STRIDE
    mul t1, t1, t2
    la t0, trap_stacks
    add t0, t0, t1
    csrw sscratch, t0
    li t1, STACK_STRIDE
    mul t1, t1, t2
    la sp, stacks
    add sp, sp, t1
    li ra, 0
    li s0, 0
    call rust_entry
.option pop

.section .data.boot, "aw"
    .balign 4
first_is_here: .word 0          # not in .bss, which is cleared after

.section .bss.boot, "aw", @nobits
    .balign 4096
.global stacks
.global trap_stacks
stacks:      .skip MAX_CPUS * STACK_STRIDE
trap_stacks: .skip MAX_CPUS * TRAP_STACK_STRIDE
