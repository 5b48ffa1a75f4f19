# PVH (Xen's docs/misc/pvh.pandoc) enters in 32-bit protected mode, with paging and interrupts off.
.section .note.Xen, "a", @note
    .balign 4
    .long 4, 4, 18              # XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .long start

.section .text.boot, "ax"
.code32
.global start, trap_entries
start:
    movl $level4, %eax; movl %eax, %cr3
    movl $0x20, %eax; movl %eax, %cr4           # PAE
    movl $0xc0000080, %ecx                      # EFER: LME
    movl $0x100, %eax; xorl %edx, %edx; wrmsr
    movl $0x80000011, %eax; movl %eax, %cr0     # PG, ET, PE
    lgdt gdt_pointer; ljmp $8, $long_mode
.code64
long_mode:
    xorl %eax, %eax; movl %eax, %ss; movl $stack_end, %esp
    cld
    call kernel_main

# Entries of all vectors, 16 bytes each. For some, the CPU pushes an error code.
.balign 16
trap_entries:
.set vector, 0
.rept 48
    .balign 16
    .if ((0x60227d00 >> vector) & 1) == 0
    pushq $0
    .endif
    pushq $vector
    jmp trap_common
    .set vector, vector + 1
.endr
trap_common:                    # saves the registers that Rust code may change
    .irp register, rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11
    pushq %\register
    .endr
    movq 72(%rsp), %rdi         # the vector
    movq 88(%rsp), %rsi         # the interrupted instruction
    call trap
    .irp register, r11, r10, r9, r8, rdi, rsi, rdx, rcx, rax
    popq %\register
    .endr
    addq $16, %rsp; iretq

# The first GiB at its own address, in pages of 2 MiB.
.section .data.boot, "aw"
    .balign 4096
level4: .quad level3 + 3        # present, writable
    .balign 4096
level3: .quad level2 + 3
    .balign 4096
level2:
.set page, 0x83                 # large, too
.rept 512
    .quad page
    .set page, page + 0x200000
.endr
gdt: .quad 0, 0x00af9a000000ffff # 64-bit code
gdt_pointer: .word 15
    .long gdt

.section .bss.boot, "aw", @nobits
    .balign 16
    .skip 0x10000
stack_end:
