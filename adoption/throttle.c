// throttle RATE OUT COMMAND...: runs COMMAND with a socket as file 9, which is read at RATE bytes a second into OUT.
// PAUSE_MS and PAUSE_AT (a number of bytes) make the reader stop once.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static volatile sig_atomic_t stopped;

static void stop(int signal) {
    (void)signal;
    stopped = 1;
}

static double number(const char *name, double otherwise) {
    const char *text = getenv(name);
    return text ? atof(text) : otherwise;
}

int main(int count, char **words) {
    if (count < 4)
        return 2;
    double rate = atof(words[1]);
    double pause = number("PAUSE_MS", 0) / 1e3, pause_at = number("PAUSE_AT", 20000);
    FILE *out = fopen(words[2], "w");
    int ends[2], small = 1;
    if (!out || socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        return 2;
    setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    pid_t child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], 9);
        close(ends[0]);
        execvp(words[3], words + 3);
        _exit(127);
    }
    close(ends[1]);

    // One UART FIFO (16 bytes) is the most that the reader catches up at once.
    signal(SIGTERM, stop);
    double credit = 0, last = now(), gap = 0;
    unsigned long total = 0, gaps = 0;
    while (!stopped) {
        if (pause > 0 && total >= pause_at) {
            usleep(pause * 1e6);
            pause = 0;
            last = now();
        }
        nanosleep(&(struct timespec){0, 80000}, 0);
        double time = now(), since = time - last;
        gap = since > gap ? since : gap;
        gaps += since > 0.008;
        credit += since * rate;
        last = time;
        if (credit > 16)
            credit = 16;
        for (; credit >= 1; credit--, total++) {
            char byte;
            ssize_t read = recv(ends[0], &byte, 1, MSG_DONTWAIT);
            if (read == 0)
                goto end;
            if (read < 0)
                break;
            fputc(byte, out);
        }
    }
end:
    fclose(out);
    if (stopped)
        kill(child, SIGTERM);
    int status;
    waitpid(child, &status, 0);
    fprintf(stderr, "throttle: %lu bytes, longest gap %.1f ms, %lu gaps above 8 ms\n", total, gap * 1e3, gaps);
    return 0;
}
