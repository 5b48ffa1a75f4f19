//! Print formats of Linux's events result in the text that Linux prints.

use nostall_tracefile::linux::{Formats, Names, Order, Place, fields};

struct Map;

impl Names for Map {
    fn place(&self, address: u64) -> Option<Place<'_>> {
        (0x1000..0x1100).contains(&address).then(|| Place {
            name: "vfs_read",
            module: None,
            offset: address - 0x1000,
            size: 0x100,
        })
    }
}

/// A record with fields of each kind.
const FIELDS: &str = "\
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char comm[16];	offset:8;	size:16;	signed:0;
	field:int minus;	offset:24;	size:4;	signed:1;
	field:unsigned int big;	offset:28;	size:4;	signed:0;
	field:long state;	offset:32;	size:8;	signed:1;
	field:void * ip;	offset:40;	size:8;	signed:0;
	field:__data_loc char[] name;	offset:48;	size:4;	signed:0;
	field:__data_loc u8[] data;	offset:52;	size:4;	signed:0;
	field:u8 mac[6];	offset:56;	size:6;	signed:0;
	field:u16 port;	offset:62;	size:2;	signed:0;
	field:__rel_loc char[] rel;	offset:64;	size:4;	signed:0;
	field:bool on;	offset:68;	size:1;	signed:0;
	field:__u8 v6[16];	offset:72;	size:16;	signed:0;
	field:__data_loc cpumask_t mask;	offset:88;	size:4;	signed:0;
	field:u32 words[2];	offset:92;	size:8;	signed:0;
";

fn payload() -> Vec<u8> {
    let mut bytes = vec![0; 100];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, &77_u16.to_le_bytes());
    put(4, &1234_i32.to_le_bytes());
    put(8, b"swapper/1\0stale!");
    put(24, &(-5_i32).to_le_bytes());
    put(28, &0xFFFF_FFF0_u32.to_le_bytes());
    put(32, &0x102_i64.to_le_bytes());
    put(40, &0x1004_u64.to_le_bytes());
    put(48, &(100_u32 | 6 << 16).to_le_bytes());
    put(52, &(106_u32 | 3 << 16).to_le_bytes());
    put(56, &[0, 0x1b, 0x21, 0xaa, 0xbb, 0xcc]);
    put(62, &0x5000_u16.to_le_bytes());
    put(64, &(41_u32 | 4 << 16).to_le_bytes());
    put(68, &[1]);
    put(72, &[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    put(88, &(116_u32 | 8 << 16).to_le_bytes());
    put(92, &[1, 0, 0, 0, 2, 0, 0, 0]);
    bytes.extend(b"ttyS0\0\x01\x02\x03rel\0\0\0\0");
    bytes.extend([0xF, 0, 0, 0, 1, 0, 0, 0]);
    bytes
}

fn formats(print: &str) -> Formats {
    let mut formats = Formats::new(Order::Little, 8);
    let text = format!("name: made\nID: 77\nformat:\n{FIELDS}\nprint fmt: {print}\n");
    assert_eq!(formats.add(&text), 1);
    formats
}

fn text(print: &str) -> Result<String, String> {
    let formats = formats(print);
    let event = formats.get(77).unwrap();
    let text = formats.text(event, &payload(), &Map)?;
    Ok(String::from_utf8(text).unwrap())
}

#[test]
fn each_conversion_and_function_prints_as_in_linux() {
    for (print, wanted) in [
        (
            r#""%s:%d:%u", REC->comm, REC->minus, REC->big"#,
            "swapper/1:-5:4294967280",
        ),
        (
            r#""[%5d|%-5d|%05d|%+d]", REC->minus, REC->minus, REC->minus, 7"#,
            "[   -5|-5   |-0005|+7]",
        ),
        (
            r#""%lx %#llx %hhu %hd", REC->state, REC->state, 0x1ff, 0x18000"#,
            "102 0x102 255 -32768",
        ),
        (r#""%c%c%%" "%s", 'a', 98, "tail""#, "ab%tail"),
        (
            r#""%.3s|%-8.2s|%*d|%.*s", REC->comm, "xyz", 4, 42, 2, "pqr""#,
            "swa|xy      |  42|pq",
        ),
        (
            r#""%ps %pS %pS", REC->ip, (void *)REC->ip, (void *)0x2000"#,
            "vfs_read vfs_read+0x4/0x100 0x2000",
        ),
        (
            r#""%px %p", REC->ip, REC->ip"#,
            "0000000000001004 0000000000001004",
        ),
        (
            r#""%s %s", __get_str(name), __get_rel_str(rel)"#,
            "ttyS0 rel",
        ),
        (
            r#""%s", (char *)((void *)((char *)REC + (REC->__data_loc_name & 0xffff)))"#,
            "ttyS0",
        ),
        (r#""%d", __get_dynamic_array_len(data)"#, "3"),
        (
            r#""%s %s", __print_hex(__get_dynamic_array(data), __get_dynamic_array_len(data)), __print_hex_str(REC->mac, 6)"#,
            "01 02 03 001b21aabbcc",
        ),
        (
            r#""%s %s", __print_array(REC->words, 2, 4), __print_dynamic_array(data, 1)"#,
            "{0x1,0x2} {0x1,0x2,0x3}",
        ),
        (
            r#""%pM %pm %*phC", REC->mac, REC->mac, 3, REC->mac"#,
            "00:1b:21:aa:bb:cc 001b21aabbcc 00:1b:21",
        ),
        (
            r#""%pI4 %pi4 %pI6c %pI6", &REC->words[0], &REC->words[1], REC->v6, REC->v6"#,
            "1.0.0.0 002.000.000.000 fe80::1 fe80:0000:0000:0000:0000:0000:0000:0001",
        ),
        (r#""%pUb", REC->v6"#, "fe800000-0000-0000-0000-000000000001"),
        (r#""%s", __get_bitmask(mask)"#, "00000001,0000000f"),
        (r#""%*pbl", 33, __get_dynamic_array(mask)"#, "0-3,32"),
        (r#""%u", __builtin_bswap16(REC->port)"#, "80"),
        (
            r#""%s", __print_symbolic(REC->minus, { -5, "FIVE" }, { 1, "ONE" })"#,
            "FIVE",
        ),
        (
            r#""%s", __print_symbolic(REC->big, { 1, "ONE" })"#,
            "0xfffffff0",
        ),
        (
            r#""%s|%s", __print_flags(REC->state, "|", { 2, "D" }, { 0x100UL, "I" }), __print_flags(0x12, ",", { 2, "A" })"#,
            "D|I|A,0x10",
        ),
        (
            r#""%s%s", REC->state & (1 << 8) ? "+" : "-", REC->on ? "on" : "off""#,
            "+on",
        ),
        (
            r#""%d %d %d", REC->minus < 0 && REC->on, !REC->on || REC->big == 1, REC->minus >= 0"#,
            "1 0 0",
        ),
        (
            r#""%u:%u", ((unsigned int) ((REC->big) >> 20)), ((unsigned int) ((REC->big) & ((1U << 20) - 1)))"#,
            "4095:1048560",
        ),
        (
            r#""%d %u %d", (u8)0x1ff, (unsigned short)-1, (int)(char)0xff"#,
            "255 65535 -1",
        ),
        (
            r#""%llu %lld", (unsigned long long)REC->minus, (long long)REC->big"#,
            "18446744073709551611 4294967280",
        ),
        (r#""%d %d", -7 / 2, -7 % 3"#, "-3 -1"),
        (r#""%d", *(int *)&REC->minus"#, "-5"),
        (r#""%u %d", REC->words[1], REC->mac[5]"#, "2 204"),
        (r#""%lu", sizeof(u64) * sizeof(struct foo *)"#, "64"),
        (
            r#""%llu.%09u", __print_ns_to_secs(1500000000ULL), __print_ns_without_secs(1500000000ULL)"#,
            "1.500000000",
        ),
        (r#""%s", REC->minus ?: "none""#, ""),
        (r#""%d", REC->common_pid"#, "1234"),
        (r#""\"%s\"\t\\""#, ""),
    ] {
        if wanted.is_empty() {
            assert!(text(print).is_err(), "{print}");
        } else {
            assert_eq!(text(print).as_deref(), Ok(wanted), "{print}");
        }
    }
}

#[test]
fn escapes_in_a_format_string_are_decoded() {
    assert_eq!(text(r#""\"%s\"\t\\ \x41", "q""#).unwrap(), "\"q\"\t\\ A");
}

#[test]
fn an_unsupported_function_of_the_kernel_is_named() {
    let error = text(r#""%s", scsi_trace_parse_cdb(p, REC->mac, 6)"#).unwrap_err();
    assert!(error.contains("scsi_trace_parse_cdb()"), "{error}");
    let error = text(r#""%d", REC->none"#).unwrap_err();
    assert!(error.contains("none"), "{error}");
    let error = text(r#""%pGg", &REC->big"#).unwrap_err();
    assert!(error.contains("%pG"), "{error}");
}

#[test]
fn enumerators_that_linux_does_not_replace_have_their_values() {
    let modes = r#""%s", __print_symbolic(REC->on + 8, { HRTIMER_MODE_ABS, "ABS" },
        { HRTIMER_MODE_REL_PINNED_SOFT, "REL|PINNED|SOFT" }, { HRTIMER_MODE_REL_HARD, "REL|HARD" })"#;
    assert_eq!(text(&modes.replace('\n', " ")).unwrap(), "REL|HARD");
    for (name, value) in [
        ("HRTIMER_MODE_ABS_PINNED_HARD", "10"),
        ("HRTIMER_MODE_REL_PINNED_SOFT", "7"),
        ("IOPRIO_CLASS_IDLE", "3"),
        ("PM_QOS_REMOVE_REQ", "2"),
        ("1 << VMSCAN_THROTTLE_CONGESTED", "8"),
    ] {
        assert_eq!(text(&format!("\"%d\", {name}")).unwrap(), value, "{name}");
    }
    assert!(text("\"%d\", HRTIMER_MODE_NEW").is_err());
}

#[test]
fn a_plain_pointer_that_the_record_does_not_contain_leaves_the_other_values_readable() {
    let page = r#""page=%p pfn=0x%lx", (((struct page *)vmemmap_base) + (REC->state)), REC->state"#;
    assert_eq!(text(page).unwrap(), "page=(____ptrval____) pfn=0x102");
    assert!(text(r#""%px", vmemmap_base"#).is_err());
    assert!(text(r#""%p %p", REC->ip"#).is_err());
}

#[test]
fn a_string_without_a_nul_continues_beyond_its_array_as_in_linux_up_to_the_records_end() {
    let mut payload = payload();
    payload[8..24].copy_from_slice(b"sixteen letters!");
    let formats = formats(r#""%s %d", REC->comm, REC->minus"#);
    let event = formats.get(77).unwrap();
    let text = formats.text(event, &payload, &Map).unwrap();
    assert!(
        text.starts_with(b"sixteen letters!\xfb\xff\xff\xff\xf0\xff\xff\xff\x02\x01 -5"),
        "{text:?}"
    );
    payload.fill(b'x');
    let text = formats.text(event, &payload, &Map).unwrap();
    assert_eq!(text.len(), payload.len() - 8 + " 2021161080".len());
}

#[test]
fn fields_are_printed_as_linux_prints_them_without_a_print_format() {
    let formats = formats("\"\"");
    let event = formats.get(77).unwrap();
    let text = String::from_utf8(fields(event, &payload(), Order::Little)).unwrap();
    assert_eq!(
        text,
        " comm=swapper/1 minus=0xfffffffb (-5) big=0xfffffff0 (-16) state=0x102 (258) \
         ip=0x1004 (4100) name=ttyS0 data=01,02,03 mac=<INVALID-SIZE> port=0x5000 (20480) \
         rel=rel on=(1) v6=<INVALID-SIZE> mask=<INVALID-TYPE> words=0x200000001 (8589934593)"
    );
    let cut = fields(event, &payload()[..101], Order::Little);
    assert!(String::from_utf8(cut).unwrap().contains("name=<OVERFLOW>"));
}

#[test]
fn hostile_print_formats_and_payloads_end_with_an_error_or_a_short_text() {
    for print in [
        format!("\"%d\", {}1{}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("\"%d\", 1{}", " + 1".repeat(100_000)),
        format!("\"%d\", {}1", "-".repeat(100_000)),
        format!("\"%d\", {}1", "(int)".repeat(100_000)),
        r#""%*d", 0x7fffffff, 1"#.to_owned(),
        r#""%2147483647d%2147483647d%99999999999999d", 1, 2, 3"#.to_owned(),
        r#""%d", REC->words[0xffffffffffffffff]"#.to_owned(),
        r#""%d", *((u64 *)REC + 0xffffffffffffffff)"#.to_owned(),
        r#""%d", 1 / 0"#.to_owned(),
        r#""%ld", (-9223372036854775807L - 1) / -1"#.to_owned(),
        r#""%d", 1 << 200"#.to_owned(),
        r#""%*pb", 0x7fffffff, REC->words"#.to_owned(),
        r#""%s", __print_array(REC->words, 0xffffffffffffffff, 8)"#.to_owned(),
        r#""%s", __print_hex(REC->words, -1)"#.to_owned(),
        r#""%pIS", REC->words"#.to_owned(),
        r#""%""#.to_owned(),
        r#""%d"#.to_owned(),
        "\"%c\", '".to_owned(),
        "\"\\x".to_owned(),
        "\"\\x\u{e4}\"".to_owned(),
    ] {
        if let Ok(text) = text(&print) {
            assert!(text.len() <= 8192, "{} bytes", text.len());
        }
    }
}
