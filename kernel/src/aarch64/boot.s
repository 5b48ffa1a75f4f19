// Entry of each CPU, with translation and interrupts off, at EL1 or EL2. EL3 is reported.
//
// start: x0 = the device tree, or 0 if it is at the start of RAM.
// start_other: x0 = the CPU's number, the context of PSCI's CPU_ON (DEN0022, section 5.6).

.section .text.boot, "ax"
.global start
.global start_other
start:
    mov x19, x0
    mov x20, xzr
    b 1f
start_other:
    mov x19, xzr
    mov x20, x0
1:  msr daifset, #0xf
    mrs x0, currentel
    cmp x0, #(2 << 2)
    b.lo at_el1
    b.hi at_el3

    // Leave EL2. EL1 gets the counter without offset, and no access of it traps.
    mov x1, #(1 << 31)              // HCR_EL2.RW: EL1 is AArch64
    msr hcr_el2, x1
    isb                             // without E2H, which gives registers another meaning
    ldr x1, =0x30d00800             // SCTLR_EL1: translation off, little-endian, the bits that are 1
    msr sctlr_el1, x1
    mrs x1, cnthctl_el2
    orr x1, x1, #3                  // EL1PCTEN, EL1PCEN
    msr cnthctl_el2, x1
    msr cntvoff_el2, xzr
    mrs x1, midr_el1
    msr vpidr_el2, x1
    mrs x1, mpidr_el1
    msr vmpidr_el2, x1
    mov x1, #0x33ff                 // CPTR_EL2: the bits that are 1
    msr cptr_el2, x1
    msr hstr_el2, xzr
    mrs x1, id_aa64pfr0_el1         // GIC, bits 24 to 27: its registers are system registers
    tst x1, #(0xf << 24)
    b.eq 2f
    mrs x1, s3_4_c12_c9_5           // ICC_SRE_EL2
    mov x2, #9                      // Enable (for EL1), SRE
    orr x1, x1, x2
    msr s3_4_c12_c9_5, x1
    isb
    msr s3_4_c12_c11_0, xzr         // ICH_HCR_EL2
2:  mov x1, #0x3c4                  // EL1 with SP_EL0, all interrupts masked
    msr spsr_el2, x1
    adr x1, at_el1
    msr elr_el2, x1
    eret

    // All CPUs of a machine without firmware begin at EL3. The first one reports that, and ends the
    // machine.
at_el3:
    mrs x2, mpidr_el1
    tst x2, #0xffffff
    b.ne 5f
    mov w0, #0x04                   // SYS_WRITE0
    adr x1, report
    hlt #0xf000
    mov w0, #0x20                   // SYS_EXIT_EXTENDED
    adr x1, status
    hlt #0xf000
5:  wfe
    b 5b
report:
    .asciz "{{\"panic\":{{\"cpu\":0,\"message\":\"the CPU starts at EL3, without firmware\"}}}}\n"
    .balign 8
status:
    .quad 0x20026, 0x23             // ADP_Stopped_ApplicationExit, failure

at_el1:
    // Rust code runs with translation and caches on, because atomic operations need Normal memory.
    ldr x1, =MAIR
    msr mair_el1, x1
    ldr x1, =TCR
    mrs x2, id_aa64mmfr0_el1        // PARange, bits 0 to 3
    and x2, x2, #7
    bfi x1, x2, #32, #3             // IPS
    msr tcr_el1, x1
    adrp x1, BOOT_TABLE
    msr ttbr0_el1, x1
    adrp x1, ALIAS_TABLE
    msr ttbr1_el1, x1
    adr x1, vectors
    msr vbar_el1, x1
    ic iallu
    tlbi vmalle1
    dsb nsh
    isb
    ldr x1, =SCTLR
    msr sctlr_el1, x1
    isb

    cbnz x20, 4f
    // Not every loader clears .bss.
    adrp x0, __bss_start
    add x0, x0, :lo12:__bss_start
    adrp x1, __bss_end
    add x1, x1, :lo12:__bss_end
3:  cmp x0, x1
    b.hs 4f
    str xzr, [x0], #8
    b 3b

    // Select the CPU's two stacks. Both grow down. Exceptions use SP_EL1.
4:  msr tpidr_el1, x20
    add x2, x20, #1
    ldr x1, =TRAP_STACK_STRIDE
    adrp x0, trap_stacks
    madd x0, x1, x2, x0
    msr spsel, #1
    mov sp, x0
    ldr x1, =STACK_STRIDE
    adrp x0, stacks
    madd x0, x1, x2, x0
    msr spsel, #0
    mov sp, x0
    msr daifclr, #4                 // errors of the memory system are exceptions
    mov x29, xzr
    mov x30, xzr
    mov x0, x20
    mov x1, x19
    b rust_entry
.ltorg

.section .bss.boot, "aw", @nobits
    .balign 4096
.global stacks
.global trap_stacks
stacks:      .skip MAX_CPUS * STACK_STRIDE
trap_stacks: .skip MAX_CPUS * TRAP_STACK_STRIDE
