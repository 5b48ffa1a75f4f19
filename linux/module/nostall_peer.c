// SPDX-License-Identifier: GPL-2.0
/*
 * Measures Linux's own paths of slow I/O, and reports to QEMU's debug console, so that the serial
 * console stays undisturbed. Parameter `what` names the path.
 *
 * A measurement runs while the module is inserted. The insertion then fails with ECANCELED, so
 * that the module can be inserted again. Only `what=serco` stays: it has a device, /dev/serco,
 * whose writes go to the console's write function.
 *
 * The lines of the report: crates/lab/nostall-lab/src/experiments/peers/report.rs.
 */
#include <linux/console.h>
#include <linux/delay.h>
#include <linux/kprobes.h>
#include <linux/ktime.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/spi/spi.h>
#include <linux/uaccess.h>
#include <linux/umh.h>
#include <linux/version.h>
#include <asm/io.h>
#include <asm/pci_x86.h>

static char *what = "";
module_param(what, charp, 0);
static char *way = "-";
module_param(way, charp, 0);
static int count = 1;
module_param(count, int, 0);
static int cpus = 1;
module_param(cpus, int, 0);
/* One short round, for a machine that records every access. */
static bool once;
module_param(once, bool, 0);

#define DEBUG_CONSOLE 0xe9
#define LONGEST_WRITE 20000
#define ROUNDS 5

static __printf(1, 2) void say(const char *format, ...)
{
	char line[160];
	va_list args;
	int i, length;

	va_start(args, format);
	length = vscnprintf(line, sizeof(line), format, args);
	va_end(args);
	for (i = 0; i < length; i++)
		outb(line[i], DEBUG_CONSOLE);
}

/* Finds a symbol that is not exported. */
static void *find(const char *name)
{
	static unsigned long (*lookup)(const char *name);
	struct kprobe probe = { .symbol_name = "kallsyms_lookup_name" };

	if (!lookup) {
		if (register_kprobe(&probe))
			return NULL;
		lookup = (void *)probe.addr;
		unregister_kprobe(&probe);
	}
	return (void *)lookup(name);
}

/* Returns the serial console. It stays registered for as long as this machine runs. */
static struct console *serial_console(void)
{
	struct console *one, *found = NULL;

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
	console_list_lock();
#else
	console_lock();
#endif
	for_each_console(one)
		if (one->write && !strcmp(one->name, "ttyS"))
			found = one;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
	console_list_unlock();
#else
	console_unlock();
#endif
	return found;
}

/* Returns a text without a newline, or NULL. */
static char *alphabet(void)
{
	char *text = kmalloc(LONGEST_WRITE, GFP_KERNEL);
	int i;

	for (i = 0; text && i < LONGEST_WRITE; i++)
		text[i] = 'a' + i % 26;
	return text;
}

/* Writes with the 8250 driver's own function, as printk does. */
static int measure_uart(void)
{
	static const unsigned int sizes[] = { 1, 16, 80, 2500, 11500, LONGEST_WRITE };
	struct console *console = serial_console();
	char *text = alphabet();
	unsigned int i, round;
	u64 start;

	if (!console || !text) {
		kfree(text);
		return -ENODEV;
	}
	console_lock();
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		say("begin - bus_accesses_per_byte_of_a_%u_byte_write 1/B %u\n", sizes[i], sizes[i]);
		console->write(console, text, sizes[i]);
		say("end\n");
		for (round = 0; round < ROUNDS && !once; round++) {
			start = ktime_get_ns();
			console->write(console, text, sizes[i]);
			start = ktime_get_ns() - start;
			say("figure - ns_per_byte_of_a_%u_byte_write ns/B %llu %u\n", sizes[i], start,
			    sizes[i]);
		}
	}
	console_unlock();
	kfree(text);
	return 0;
}

/* Reads the host bridge's first register as drivers do, and with each of the two methods. */
static u32 read_config(struct pci_dev *bridge, const struct pci_raw_ops *ops, int reads)
{
	u32 value = 0, sum = 0;

	while (reads--) {
		if (ops)
			ops->read(0, 0, 0, 0, 4, &value);
		else
			pci_bus_read_config_dword(bridge->bus, 0, 0, &value);
		sum += value;
	}
	return sum;
}

static int measure_pci(void)
{
	const struct pci_raw_ops **ports = find("raw_pci_ops"), **ecam = find("raw_pci_ext_ops");
	struct pci_dev *bridge = pci_get_domain_bus_and_slot(0, 0, 0);
	const struct {
		const char *name;
		const struct pci_raw_ops *ops;
	} ways[] = {
		{ "-", NULL },
		{ "ports", ports ? *ports : NULL },
		{ "ecam", ecam ? *ecam : NULL },
	};
	int i, round, reads = once ? 100 : 20000;
	u64 start;

	if (!bridge)
		return -ENODEV;
	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		if (i && !ways[i].ops)
			continue;
		say("begin %s bus_accesses_per_read 1 %d\n", ways[i].name, 100);
		read_config(bridge, ways[i].ops, 100);
		say("end\n");
		for (round = 0; round < ROUNDS && !once; round++) {
			start = ktime_get_ns();
			read_config(bridge, ways[i].ops, reads);
			start = ktime_get_ns() - start;
			say("figure %s ns_per_read ns %llu %d\n", ways[i].name, start, reads);
		}
	}
	pci_dev_put(bridge);
	return 0;
}

static atomic_t teardowns;

static int spi_transfer_at_once(struct spi_controller *controller, struct spi_device *device,
				struct spi_transfer *transfer)
{
	return 0;
}

static int spi_sleep(struct spi_controller *controller)
{
	atomic_inc(&teardowns);
	return 0;
}

/*
 * Sends 4 bytes a message through a controller that completes at once. The caller sleeps between
 * messages, as a driver does that waits for its chip's interrupt, so that a worker thread that was
 * woken can run.
 */
static void measure_messages(struct spi_controller *controller, struct spi_device *device)
{
	struct task_struct *worker = controller->kworker->task;
	int i, round, messages = 1000;
	unsigned long woken;
	u8 *bytes = kzalloc(4, GFP_KERNEL);
	u64 start, took;

	for (round = 0; bytes && round < ROUNDS; round++) {
		atomic_set(&teardowns, 0);
		woken = worker->nvcsw;
		for (took = 0, i = 0; i < messages; i++) {
			start = ktime_get_ns();
			spi_write(device, bytes, 4);
			took += ktime_get_ns() - start;
			usleep_range(20, 40);
		}
		msleep(20);
		say("figure - ns_per_message ns %llu %d\n", took, messages);
		say("figure - wakeups_per_message 1 %lu %d\n", worker->nvcsw - woken, messages);
		say("figure - teardowns_per_message 1 %d %d\n", atomic_read(&teardowns), messages);
	}
	kfree(bytes);
}

static int measure_spi(void)
{
	struct spi_board_info chip = { .modalias = "nostall-peer", .max_speed_hz = 1000000 };
	struct device *parent = root_device_register("nostall-peer");
	struct spi_controller *controller;
	struct spi_device *device;
	int error;

	if (IS_ERR(parent))
		return PTR_ERR(parent);
	controller = spi_alloc_host(parent, 0);
	if (!controller) {
		root_device_unregister(parent);
		return -ENOMEM;
	}
	controller->bus_num = -1;
	controller->num_chipselect = 1;
	controller->transfer_one = spi_transfer_at_once;
	controller->unprepare_transfer_hardware = spi_sleep;
	error = spi_register_controller(controller);
	if (error) {
		spi_controller_put(controller);
	} else {
		device = spi_new_device(controller, &chip);
		if (device)
			measure_messages(controller, device);
		else
			error = -ENODEV;
		spi_unregister_controller(controller);
	}
	root_device_unregister(parent);
	return error;
}

/* Runs a dd of `count` blocks on each of so many CPUs at once, and waits for all of them. */
static int copy_on(int cpus)
{
	char number[12], blocks[12];
	char *argv[] = { "/init", "copy", number, blocks, NULL };
	char *envp[] = { "PATH=/", NULL };

	snprintf(number, sizeof(number), "%d", cpus);
	snprintf(blocks, sizeof(blocks), "%d", count);
	return call_usermodehelper(argv[0], argv, envp, UMH_WAIT_PROC) ? -EIO : 0;
}

/*
 * Times dd on `cpus` CPUs after a round on one, which warms the caches and counts the records of
 * one dd. ramoops numbers its records without a lock, so CPUs that store at once lose numbers.
 */
static int measure_pstore(void)
{
	u64 *stamp = find("pstore_ftrace_stamp"), start, records;
	int error;

	if (!stamp)
		return -ENOENT;
	records = READ_ONCE(*stamp);
	error = copy_on(1);
	records = (READ_ONCE(*stamp) - records) * cpus;
	if (error)
		return error;
	start = ktime_get_ns();
	error = copy_on(cpus);
	start = ktime_get_ns() - start;
	if (error)
		return error;
	say("figure %s ns_per_block ns %llu %d\n", way, start, count * cpus);
	say("figure %s records 1 %llu 1\n", way, records);
	if (records)
		say("figure %s ns_per_record ns %llu %llu\n", way, start, records);
	return 0;
}

/* Logs messages of 100 bytes. The console's log level decides whether they are printed. */
static int measure_printk(void)
{
	u64 start, worst = 0, sum = 0;
	int i;

	for (i = 0; i < count; i++) {
		start = ktime_get_ns();
		printk(KERN_INFO "%0100d\n", i);
		start = ktime_get_ns() - start;
		sum += start;
		worst = max(worst, start);
	}
	say("figure %s ns_per_printk ns %llu %d\n", way, sum, count);
	say("figure %s longest_printk_ns ns %llu 1\n", way, worst);
	return 0;
}

static ssize_t serco_write(struct file *file, const char __user *from, size_t length, loff_t *at)
{
	struct console *console = serial_console();
	char *text;

	if (!console || length > LONGEST_WRITE)
		return -EINVAL;
	text = memdup_user(from, length);
	if (IS_ERR(text))
		return PTR_ERR(text);
	console_lock();
	console->write(console, text, length);
	console_unlock();
	kfree(text);
	return length;
}

static const struct file_operations serco_operations = {
	.owner = THIS_MODULE,
	.write = serco_write,
};

static struct miscdevice serco = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "serco",
	.fops = &serco_operations,
};

static int __init peer_init(void)
{
	static const struct {
		const char *name;
		int (*measure)(void);
	} paths[] = {
		{ "uart", measure_uart },	{ "pci", measure_pci },
		{ "spi", measure_spi },		{ "pstore", measure_pstore },
		{ "printk", measure_printk },
	};
	int i, error = -EINVAL;

	if (!strcmp(what, "serco"))
		return misc_register(&serco);
	for (i = 0; i < ARRAY_SIZE(paths); i++)
		if (!strcmp(what, paths[i].name))
			error = paths[i].measure();
	return error ? error : -ECANCELED;
}

static void __exit peer_exit(void)
{
	misc_deregister(&serco);
}

module_init(peer_init);
module_exit(peer_exit);
MODULE_DESCRIPTION("Measures paths of slow I/O beside nostall");
MODULE_LICENSE("GPL");
