# One entry for each vector in use, 16 bytes apart. All entries call rust_trap with a
# Frame (traps.rs) on the stack.

.section .text
.balign 16
.global trap_entries
trap_entries:
.set vector, 0
.rept TRAP_ENTRIES
    .balign 16
    # Some exceptions push an error code. For all others, push 0.
    .if !((vector == 8) || ((vector >= 10) && (vector <= 14)) || (vector == 17) || (vector == 21) || (vector == 29) || (vector == 30))
    pushq $0
    .endif
    pushq $vector
    jmp trap_common
    .set vector, vector + 1
.endr

trap_common:
    pushq %rax
    pushq %rcx
    pushq %rdx
    pushq %rsi
    pushq %rdi
    pushq %r8
    pushq %r9
    pushq %r10
    pushq %r11
    cld
    movq %rsp, %rdi
    # The stack is aligned to 16 bytes: the CPU aligned it, and 16 words are on it
    # (9 registers, vector, error code, 5 words from the CPU).
    call rust_trap
    popq %r11
    popq %r10
    popq %r9
    popq %r8
    popq %rdi
    popq %rsi
    popq %rdx
    popq %rcx
    popq %rax
    addq $16, %rsp
    iretq
