// 32 bits, flat segments, no stack: reads the host bridge's ID 1,000 times, and prints it.
    .pushsection .rodata
    .code32
    .globl guest_start, guest_end
guest_start:
    mov esi, 0xb0000000         // ECAM: bus 0, device 0, function 0
    mov edi, 1000
1:  mov eax, [esi]
    dec edi
    jnz 1b
    mov ecx, 8                  // hexadecimal digits
2:  rol eax, 4
    mov ebx, eax
    and ebx, 15
    add bl, '0'
    cmp bl, '9'
    jbe 3f
    add bl, 'a' - '9' - 1
3:  mov ebp, eax
    mov edx, 0x3fd
4:  in al, dx                   // line status: wait for an empty transmitter
    test al, 0x20
    jz 4b
    mov dl, 0xf8
    mov al, bl
    out dx, al
    mov eax, ebp
    loop 2b
    mov dl, 0xf8
    mov al, 10
    out dx, al
    hlt
guest_end:
    .code64
    .popsection
