//! The cost profiles, compared with published figures.

use nostall_devices::uart::{Line, Profile, Uart};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::registers::{FCR, LSR, SCR, THR, fcr, lsr};
use nostall_uart::{Console, LineSettings, Strategy};

/// Returns the duration of one write of `bytes` letters.
fn time_to_write(profile: Profile, strategy: Strategy, bytes: u64) -> Nanos {
    let (port, clock) = Uart::in_virtual_time(profile, Vec::new());
    let mut console = Console::open(&port, &clock, LineSettings::baud(115_200)).unwrap();
    console.set_strategy(strategy);
    let text: Vec<u8> = (b'a'..=b'z').cycle().take(bytes as usize).collect();
    let start = clock.now();
    assert!(console.write(&text).is_complete());
    let took = clock.now() - start;
    assert!(port.into_sink() == text);
    took
}

#[test]
fn every_published_figure_is_met_within_10_percent() {
    for profile in Profile::ALL {
        for published in profile.published {
            let ours = time_to_write(profile, published.strategy, published.bytes);
            let ratio = ours.0 as f64 / published.time.0 as f64;
            println!(
                "{}: {} bytes {}: published {} us, model {} us ({ratio:.3})",
                profile.name,
                published.bytes,
                published.strategy,
                published.time.0 / 1_000,
                ours.0 / 1_000,
            );
            assert!((0.9..=1.1).contains(&ratio), "{published:?}: {ours}");
        }
    }
}

#[test]
fn every_profile_has_a_unique_name() {
    for profile in Profile::ALL {
        let same_name = Profile::ALL.iter().filter(|p| p.name == profile.name);
        assert_eq!(same_name.count(), 1, "{}", profile.name);
    }
}

#[test]
fn slow_accesses_occur_at_their_interval() {
    let profile = Profile::HP_DL380_GEN9;
    let slow = profile.slow_access;
    let (port, clock) = Uart::in_virtual_time(profile, Vec::new());
    for n in 1..=2 * slow.every {
        let start = clock.now();
        port.read8(SCR);
        let is_slow = clock.now() - start == slow.takes;
        assert_eq!(is_slow, n.is_multiple_of(slow.every), "access {n}");
        assert!(is_slow || clock.now() - start == profile.access);
    }
}

#[test]
fn a_controllers_port_is_empty_when_its_fifo_is() {
    let profile = Profile::HP_DL380_GEN9;
    let Line::Controller(controller) = profile.line else {
        panic!("{profile:?}");
    };
    let (port, clock) = Uart::in_virtual_time(profile, Vec::new());
    port.write8(FCR, fcr::ENABLE);
    port.write_burst(THR, &[b'x'; 17]);
    assert_eq!(port.with(|uart| uart.lost()), 1, "no shift register");
    assert_eq!(port.read8(LSR) & (lsr::THRE | lsr::TEMT), 0);
    while port.read8(LSR) & (lsr::THRE | lsr::TEMT) == 0 {
        let next = port.with(|uart| uart.next_event());
        clock.wait_until(next.expect("the controller takes it later"));
    }
    // The port shows nothing of the bytes that the buffer still holds.
    assert!(clock.now() < controller.drain * 16);
    assert_eq!(port.read8(LSR) & lsr::TEMT, lsr::TEMT);
    assert_eq!(port.into_sink().len(), 16);
}

#[test]
fn once_its_buffer_is_full_a_controller_is_as_slow_as_the_buffer_drains() {
    let rest = |bytes| {
        let time = |bytes| time_to_write(Profile::HP_DL380_GEN9, Strategy::FifoBurst, bytes);
        (time(bytes + 1_600) - time(bytes)) / 1_600
    };
    assert!(rest(160) < Nanos::from_micros(50));
    let per_byte = rest(4_000);
    assert!((Nanos::from_micros(335)..Nanos::from_micros(339)).contains(&per_byte));
}

#[test]
fn after_its_settling_time_a_port_takes_no_longer_than_a_new_one() {
    let profile = Profile::HP_DL380_GEN9;
    let (port, clock) = Uart::in_virtual_time(profile, Vec::new());
    let mut console = Console::open(&port, &clock, LineSettings::baud(115_200)).unwrap();
    let mut time = |bytes| {
        let start = clock.now();
        assert!(console.write(&vec![b'x'; bytes]).is_complete());
        clock.now() - start
    };
    let first = time(2_500);
    assert!(time(2_500) > first * 5, "the buffer is full");
    clock.advance(profile.settling_time());
    // Slow accesses fall on other bytes the second time.
    let again = time(2_500);
    assert!(
        again.0.abs_diff(first.0) < first.0 / 100,
        "{again}, {first}"
    );
}
