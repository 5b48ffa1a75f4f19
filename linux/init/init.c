// SPDX-License-Identifier: GPL-2.0
/*
 * First program of a Linux that is a peer. The word `nostall=PATH` of the kernel's command line
 * names the measurements; `nostall.once` asks for one short round. Reports go to QEMU's debug
 * console. The machine ends after them, and after a failed step, which its console then shows.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define DEBUG_CONSOLE 0xe9
#define TRACING "/sys/kernel/debug/tracing/"
#define RECORD "/sys/kernel/debug/pstore/record_ftrace"
/* Of the memory that `memmap` of the command line reserves. */
#define REGION "mem_size=0x40000 record_size=0 console_size=0 pmsg_size=0 ftrace_size=0x40000 "

static int is_once;

static void end(void)
{
	/* The console's last bytes leave the port first. */
	tcdrain(1);
	reboot(RB_POWER_OFF);
	_exit(1);
}

static void failed(const char *step)
{
	printf("nostall: %s: %s\n", step, strerror(errno));
	fflush(stdout);
	end();
}

static void say(const char *format, ...)
{
	char line[160];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	for (char *byte = line; *byte; byte++)
		outb(*byte, DEBUG_CONSOLE);
}

static void insert(const char *file, const char *parameters)
{
	int module = open(file, O_RDONLY | O_CLOEXEC);

	if (module < 0)
		failed(file);
	if (syscall(SYS_finit_module, module, parameters, 0) && errno != ECANCELED)
		failed(parameters[0] ? parameters : file);
	close(module);
}

static void measure(const char *parameters)
{
	char all[128];

	snprintf(all, sizeof(all), "%s%s", parameters, is_once ? " once=1" : "");
	insert("/nostall_peer.ko", all);
}

static void put_into(const char *path, const char *text, int flags)
{
	int file = open(path, O_WRONLY | O_CLOEXEC | flags);

	if (file < 0 || write(file, text, strlen(text)) < 0)
		failed(path);
	close(file);
}

static void put(const char *path, const char *text)
{
	put_into(path, text, 0);
}

static long long nanoseconds(struct timeval time)
{
	return time.tv_sec * 1000000000LL + time.tv_usec * 1000LL;
}

/* Writes to a device once for each size, as the test program of Linux's fix does. */
static void write_to(const char *device, const char *way)
{
	static const int sizes[] = { 1, 2500, 11500 };
	static char text[11500];
	int file = open(device, O_WRONLY | O_NOCTTY | O_CLOEXEC);

	if (file < 0)
		failed(device);
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = 'a' + i % 26;
	for (int i = 0; i < 3; i++) {
		struct rusage before, after;
		struct timespec start, stop;

		getrusage(RUSAGE_SELF, &before);
		clock_gettime(CLOCK_MONOTONIC, &start);
		for (int sent = 0; sent < sizes[i];) {
			ssize_t some = write(file, text + sent, sizes[i] - sent);

			if (some < 0)
				failed(device);
			sent += some;
		}
		/* A device that is no terminal has sent all when the write returns. */
		tcdrain(file);
		clock_gettime(CLOCK_MONOTONIC, &stop);
		getrusage(RUSAGE_SELF, &after);
		say("figure %s ns_of_a_%d_byte_write ns %lld 1\n", way, sizes[i],
		    (stop.tv_sec - start.tv_sec) * 1000000000LL + stop.tv_nsec - start.tv_nsec);
		say("figure %s user_ns_of_a_%d_byte_write ns %lld 1\n", way, sizes[i],
		    nanoseconds(after.ru_utime) - nanoseconds(before.ru_utime));
		say("figure %s system_ns_of_a_%d_byte_write ns %lld 1\n", way, sizes[i],
		    nanoseconds(after.ru_stime) - nanoseconds(before.ru_stime));
	}
	close(file);
}

static void uart(void)
{
	measure("what=uart");
	if (is_once)
		return;
	insert("/nostall_peer.ko", "what=serco");
	write_to("/dev/serco", "sertest");
	write_to("/dev/ttyS0", "tty");
}

/* Keeps this process on one CPU. */
static void stay_on(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		failed("sched_setaffinity");
}

/*
 * Runs dd on so many CPUs at once, one each. The measuring module starts this program for it, and
 * times it. Returns 0 if each dd copied all its blocks.
 */
static int copy(int cpus, const char *blocks)
{
	char count[32];
	int status, failures = 0;

	snprintf(count, sizeof(count), "count=%s", blocks);
	for (int cpu = 0; cpu < cpus; cpu++) {
		pid_t child = fork();

		if (child < 0)
			return 1;
		if (!child) {
			stay_on(cpu);
			execl("/busybox", "dd", "if=/dev/zero", "of=/dev/null", "bs=512", count,
			      NULL);
			_exit(1);
		}
	}
	while (wait(&status) > 0)
		failures += status != 0;
	return failures;
}

/* CPUs that copy at once. A fourth one is idle, as in nostall's own measurement. */
#define CPUS 3
/* Blocks that each dd copies: without records, with records, and with records that have ECC. */
#define UNTRACED_BLOCKS 100000
#define PLAIN_BLOCKS 20000
#define ECC_BLOCKS 500

/* Measures dd on one CPU and on several. */
static void measure_copies(const char *way, int blocks)
{
	char parameters[96];

	snprintf(parameters, sizeof(parameters), "what=pstore way=%s count=%d", way, blocks);
	measure(parameters);
	snprintf(parameters, sizeof(parameters), "what=pstore way=%s-%dcpu count=%d cpus=%d", way,
		 CPUS, blocks, CPUS);
	measure(parameters);
}

/*
 * Names the functions to record: those that dd's reads and writes enter, from the system call to
 * the device. Those that store records are left out. The timer's interrupt is too: with ECC its
 * records take longer than a tick, and Linux makes no progress. So are those that kernel threads
 * enter. A thread on another CPU can meet the breakpoint that Linux writes over an entry, and
 * QEMU 7.2 then sometimes takes it for ever.
 */
static void choose_functions(void)
{
	static const char *const path[] = {
		"x64_sys_call", "*sys_read", "*sys_write", "*fdget*", "*fget_light",
		"read_zero", "write_null", "exit_to_user_mode*",
	};
	int file;

	put(TRACING "set_ftrace_notrace", ":mod:ramoops");
	put(TRACING "set_ftrace_notrace", ":mod:reed_solomon");
	put(TRACING "set_ftrace_notrace", "pstore_*");
	put(TRACING "set_ftrace_notrace", "_raw_spin_*");
	put_into(TRACING "set_ftrace_filter", "vfs_*", O_TRUNC);
	for (size_t i = 0; i < sizeof(path) / sizeof(path[0]); i++) {
		/* No Linux has all of them. One without a match is refused. */
		file = open(TRACING "set_ftrace_filter", O_WRONLY | O_CLOEXEC);
		if (file < 0)
			failed("set_ftrace_filter");
		if (write(file, path[i], strlen(path[i])) < 0 && errno != EINVAL)
			failed(path[i]);
		close(file);
	}
}

/* Measures with the chosen functions recorded. */
static void record(const char *way, const char *region, int blocks)
{
	insert("/ramoops.ko", region);
	choose_functions();
	put(RECORD, "1");
	measure_copies(way, blocks);
	put(RECORD, "0");
	if (syscall(SYS_delete_module, "ramoops", 0))
		failed("rmmod ramoops");
}

static void without_records(void)
{
	measure_copies("untraced", UNTRACED_BLOCKS);
}

static void without_ecc(void)
{
	record("ecc-0", REGION "mem_address=0xc000000 ecc=0", PLAIN_BLOCKS);
}

/* ramoops encodes a block of 128 bytes again for each record. */
static void with_ecc(void)
{
	record("ecc-16", REGION "mem_address=0xc200000 ecc=16", ECC_BLOCKS);
}

/* The second half has the reverse order of the first. */
static void pstore(void)
{
	insert("/reed_solomon.ko", "");
	without_records();
	without_ecc();
	with_ecc();
	with_ecc();
	without_ecc();
	without_records();
}

static void console(void)
{
	put("/proc/sys/kernel/printk", "1");
	measure("what=printk way=hidden count=200");
	put("/proc/sys/kernel/printk", "8");
	measure("what=printk way=printed count=200");
}

/*
 * CPU 1 logs without a pause, as a driver does that finds many devices. On CPU 0 the clock source
 * is changed meanwhile, which needs every CPU for a moment: its stopper thread waits for CPU 1.
 * The watchdog's report ends the machine with a panic, which sends the log up to then. Without
 * the panic, the flood may overwrite the report before the port has sent it.
 */
static void flood(void)
{
	pid_t other = fork();

	if (other < 0)
		failed("fork");
	if (!other) {
		stay_on(0);
		sleep(1);
		put("/sys/devices/system/clocksource/clocksource0/current_clocksource", "acpi_pm");
		_exit(0);
	}
	stay_on(1);
	put("/proc/sys/kernel/softlockup_panic", "1");
	put("/proc/sys/kernel/printk", "8");
	measure("what=printk way=printed count=20000");
	waitpid(other, NULL, 0);
}

int main(int count, char **words)
{
	char line[1024] = "";
	const char *path;
	struct utsname name;
	int file;

	if (count == 4 && !strcmp(words[1], "copy"))
		return copy(atoi(words[2]), words[3]);
	if (mount("devtmpfs", "/dev", "devtmpfs", 0, "") && errno != EBUSY)
		failed("/dev");
	if (mount("proc", "/proc", "proc", 0, "") || mount("sysfs", "/sys", "sysfs", 0, ""))
		failed("/proc and /sys");
	if (mount("debugfs", "/sys/kernel/debug", "debugfs", 0, ""))
		failed("/sys/kernel/debug");
	/* An open terminal lets the console use the FIFO. */
	file = open("/dev/ttyS0", O_RDWR | O_NOCTTY);
	if (file < 0 || dup2(file, 1) < 0 || ioperm(DEBUG_CONSOLE, 1, 1))
		failed("/dev/ttyS0");
	file = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
	if (file < 0 || read(file, line, sizeof(line) - 1) < 0)
		failed("/proc/cmdline");
	is_once = strstr(line, "nostall.once") != NULL;
	path = strstr(line, "nostall=");
	path = path ? path + strlen("nostall=") : "";

	uname(&name);
	say("nostall-peer 1 %s\n", name.release);
	if (!strncmp(path, "uart", 4))
		uart();
	else if (!strncmp(path, "pci", 3))
		measure("what=pci");
	else if (!strncmp(path, "spi", 3))
		measure("what=spi");
	else if (!strncmp(path, "pstore", 6))
		pstore();
	else if (!strncmp(path, "console", 7))
		console();
	else if (!strncmp(path, "flood", 5))
		flood();
	say("done\n");
	end();
}
