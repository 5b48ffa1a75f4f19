/*
 * First program of a Linux whose memory is kept (linux/memory-images). It writes records to
 * /dev/kmsg, sends all that /dev/kmsg returns to the second serial port, and then crashes.
 *
 * Words of the kernel's command line:
 *   truth=DEVICE    the second serial port (ttyS1)
 *   records=NUMBER  ordinary records, after the special ones (100)
 *   end=ACTION      crash (SysRq c), wait, or write: a task on each CPU writes for ever, and
 *                   reports the number of each record that it has written
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define TEXT(literal) { literal, sizeof(literal) - 1 }

/* Texts that are hard to decode, to escape or to compare. */
static const struct {
	const char *bytes;
	size_t size;
} special[] = {
	TEXT("<5>a"),
	TEXT("<6>"),
	TEXT("<6> "),
	TEXT("<6>\n"),
	TEXT("<4>three lines\nof one\nrecord\n"),
	TEXT("<4>\n\nfour lines, of which three are empty\n\n"),
	TEXT("<3>escape \x1b[31mred\x1b[0m and \\x1b, bell \a, tab \t, return \r, delete \x7f"),
	TEXT("<3>UTF-8 \xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\xa7, cut \xe2\x82"),
	TEXT("<2>not UTF-8 \xff\xfe\x80 \xc3("),
	TEXT("<1>\xff"),
	TEXT("<15>facility user, level debug"),
	TEXT("<191>facility local7, level debug"),
	TEXT("<2047>facility 255, level debug"),
	TEXT("no level"),
	TEXT("<6>a zero byte\0is not the end"),
	TEXT("<6> SUBSYSTEM=block\n DEVICE=b8:0"),
	TEXT("<6>[   12.345678] text like a time stamp"),
	TEXT("<0>Kernel panic - not syncing: said by a program"),
};

static int kmsg;
static int truth;
static unsigned seed = 12345;

static unsigned word(const char *name, unsigned otherwise)
{
	const char *value = getenv(name);

	return value ? (unsigned)atoi(value) : otherwise;
}

static unsigned random_below(unsigned limit)
{
	seed = seed * 1103515245u + 12345u;
	return (seed >> 16) % limit;
}

static void send(const char *bytes, size_t size)
{
	while (size) {
		ssize_t sent = write(truth, bytes, size);

		if (sent < 0 && errno != EINTR && errno != EAGAIN)
			return;
		if (sent > 0) {
			bytes += sent;
			size -= sent;
		}
	}
}

/* An ordinary record: up to 90 bytes, each 50th up to 900. Every 97th has two lines. */
static void write_record(const char *name, unsigned number)
{
	static const char letters[] = "abcdefghij klmno\xc3\xa9\x1b[31m=:";
	char text[1000];
	unsigned size = random_below(number % 50 == 7 ? 900 : 90);
	int at = snprintf(text, sizeof(text), "<%u>%s %06u ", number % 7 + 1, name, number);

	for (unsigned i = 0; i < size; i++) {
		text[at++] = letters[random_below(sizeof(letters) - 1)];
		if (number % 97 == 0 && i == size / 2)
			text[at++] = '\n';
	}
	write(kmsg, text, at);
}

/* A record of the largest size: 992 bytes of text are the limit since Linux 3.5. */
static void write_large(size_t size)
{
	char text[1100];
	int at = snprintf(text, sizeof(text), "<6>%zu bytes ", size);

	while (at < (int)size + 3)
		text[at++] = 'x';
	write(kmsg, text, at);
}

/* Each read returns one record. The device escapes its text: one line, and one for each field. */
static void copy_records(void)
{
	char record[8192];
	ssize_t size;
	int reader = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);

	while ((size = read(reader, record, sizeof(record))) > 0 || errno == EPIPE)
		if (size > 0)
			send(record, size);
	close(reader);
}

/* Sends the addresses where a debugger can stop printk. Debian's System.map is empty. */
static void send_addresses(void)
{
	char line[256], sent[300], name[128];
	unsigned long long address;
	FILE *symbols = fopen("/proc/kallsyms", "r");

	while (symbols && fgets(line, sizeof(line), symbols))
		if (sscanf(line, "%llx %*c %127s", &address, name) == 2 && !strncmp(name, "prb_", 4))
			send(sent, sprintf(sent, "address %llx %s\n", address, name));
}

static void write_file(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);

	write(file, text, strlen(text));
	close(file);
}

/* The task reports each record after it was written. */
static void write_for_ever(const char *name, int cpu)
{
	cpu_set_t cpus;
	char done[64];

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	for (unsigned number = 0;; number++) {
		write_record(name, number);
		/* Its help text is a record of many continuations. */
		if (number % 50 == 49)
			write_file("/proc/sysrq-trigger", "h");
		send(done, snprintf(done, sizeof(done), "written %s %06u\n", name, number));
	}
}

int main(void)
{
	struct termios raw;
	char device[64];
	const char *end = getenv("end");
	int module;

	mkdir("/dev", 0755);
	mkdir("/proc", 0755);
	mount("dev", "/dev", "devtmpfs", 0, NULL);
	mount("proc", "/proc", "proc", 0, NULL);
	snprintf(device, sizeof(device), "/dev/%s", getenv("truth") ? getenv("truth") : "ttyS1");
	truth = open(device, O_RDWR | O_NOCTTY);
	tcgetattr(truth, &raw);
	cfmakeraw(&raw);
	cfsetspeed(&raw, B115200);
	tcsetattr(truth, TCSANOW, &raw);
	kmsg = open("/dev/kmsg", O_WRONLY);
	if (truth < 0 || kmsg < 0) {
		printf("crash: %s or /dev/kmsg: %s\n", device, strerror(errno));
		pause();
	}
	write_file("/proc/sys/kernel/printk_devkmsg", "on\n");
	/* With it, the device vmcoreinfo of QEMU gets its note. */
	module = open("/qemu_fw_cfg.ko", O_RDONLY);
	if (module >= 0)
		syscall(SYS_finit_module, module, "", 0);
	/* A guest of linux/kdump loads its crash kernel. */
	if (!access("/load", X_OK)) {
		if (!fork())
			execl("/load", "/load", NULL);
		wait(NULL);
	}

	for (size_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
		write(kmsg, special[i].bytes, special[i].size);
	for (size_t size = 890; size <= 992; size += 17)
		write_large(size);
	for (unsigned number = 0; number < word("records", 100); number++)
		write_record("record", number);
	copy_records();
	if (end && !strcmp(end, "write"))
		send_addresses();
	send("end\n", 4);
	tcdrain(truth);

	if (end && !strcmp(end, "write")) {
		if (!fork())
			write_for_ever("first", 0);
		if (!fork())
			write_for_ever("second", 1);
	} else if (!end || !strcmp(end, "crash")) {
		write_file("/proc/sysrq-trigger", "c");
	}
	for (;;)
		pause();
}
