//! PC devices that Linux needs in addition to memory, interrupts and the serial port.

use super::acpi::{Configuration, OFF, PM_CONTROL, PM_EVENT, RESET, RESET_VALUE, UART_PAGES};
use crate::kvm::pc::{BASE, BusDevice, End, Next, PORTS, Place, REGISTERS, Read, STRIDE, UartMode};

/// Command and status port of the keyboard controller, and the command that resets a PC. There is
/// no keyboard controller, but kernels try this reset when others fail.
const KEYBOARD: u16 = 0x64;
const KEYBOARD_RESET: u8 = 0xfe;

// PM1 control register (ACPI 6.5, 4.8.3.2.1).
const SCI_EN: u16 = 1 << 0;
const SLP_TYP: u16 = 10;
const SLP_EN: u16 = 1 << 13;

/// Linux's additional devices.
pub struct LinuxBoard {
    uart: UartMode,
    configuration: Configuration,
    power: Power,
}

/// Power management registers: they can turn the machine off, and cause no events.
#[derive(Debug, Default)]
struct Power {
    /// PM1 enable register; PM1 status is 0.
    enable: u16,
    control: u16,
}

impl LinuxBoard {
    pub fn new(uart: UartMode, configuration: Configuration) -> Self {
        Self {
            uart,
            configuration,
            power: Power::default(),
        }
    }

    /// Returns whether the place is a configuration port to hide. Linux prefers ports to ECAM where
    /// both exist, so with ECAM the ports are hidden.
    fn is_hidden(&self, place: Place) -> bool {
        let by_ports = self.configuration == Configuration::Ports;
        !by_ports && matches!(place, Place::Port(port) if PORTS.contains(&port))
    }

    /// Returns whether the place is in the serial port's range of the ACPI tables, but is no
    /// register.
    fn is_beside_the_uart(&self, place: Place) -> bool {
        let Place::Memory(address) = place else {
            return false;
        };
        let is_register =
            |offset: u64| offset.is_multiple_of(STRIDE) && offset < STRIDE * u64::from(REGISTERS);
        self.uart == UartMode::MmioReadonly
            && address
                .checked_sub(BASE)
                .is_some_and(|offset| offset < UART_PAGES * STRIDE && !is_register(offset))
    }
}

impl BusDevice for LinuxBoard {
    fn read(&mut self, place: Place, data: &mut [u8]) -> Option<Read> {
        if self.is_beside_the_uart(place) {
            // 8250_dw reads the DesignWare's own registers at 0xb4 and 0xf8 of the first page.
            // Zeros mean that they are absent; all ones would mean every feature.
            data.fill(0);
            return Some(Read::Serial);
        }
        match place {
            _ if self.is_hidden(place) => data.fill(!0),
            Place::Port(port @ PM_EVENT..PM_END) => self.power.read(port, data),
            // The status has no full buffer: a command is accepted at once.
            Place::Port(KEYBOARD) => data.fill(0),
            _ => return None,
        }
        Some(Read::Other)
    }

    fn write(&mut self, place: Place, data: &[u8]) -> Option<Next> {
        if self.is_beside_the_uart(place) {
            return Some(Next::GoOn);
        }
        // The reset port is handled first, because it overlaps the bridge's ports.
        match (place, data) {
            (Place::Port(RESET), [value]) if value & RESET_VALUE == RESET_VALUE => {
                return Some(Next::End(End::Reset));
            }
            (Place::Port(KEYBOARD), [KEYBOARD_RESET]) => return Some(Next::End(End::Reset)),
            (Place::Port(port @ PM_EVENT..PM_END), _) => return Some(self.power.write(port, data)),
            _ => {}
        }
        self.is_hidden(place).then_some(Next::GoOn)
    }
}

/// End of the power management registers.
const PM_END: u16 = PM_CONTROL + 2;

impl Power {
    fn read(&self, port: u16, data: &mut [u8]) {
        let mut registers = [0; (PM_END - PM_EVENT) as usize];
        registers[2..4].copy_from_slice(&self.enable.to_le_bytes());
        // ACPI mode is the only mode.
        registers[4..6].copy_from_slice(&(self.control | SCI_EN).to_le_bytes());
        let from = usize::from(port - PM_EVENT);
        for (byte, value) in data.iter_mut().zip(registers[from..].iter().chain([&0; 8])) {
            *byte = *value;
        }
    }

    fn write(&mut self, port: u16, data: &[u8]) -> Next {
        let value = match *data {
            [low, high] => u16::from_le_bytes([low, high]),
            // ACPI requires both registers to be written whole.
            _ => return Next::GoOn,
        };
        if port == PM_EVENT + 2 {
            self.enable = value;
        } else if port == PM_CONTROL {
            self.control = value & !SLP_EN;
            if value & SLP_EN != 0 && value >> SLP_TYP & 0b111 == u16::from(OFF) {
                return Next::End(End::Off);
            }
        }
        Next::GoOn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(uart: UartMode) -> LinuxBoard {
        LinuxBoard::new(uart, Configuration::Ports)
    }

    #[test]
    fn each_way_of_linux_to_end_the_machine_works() {
        let mut board = board(UartMode::Ports);
        let off = (SLP_EN | u16::from(OFF) << SLP_TYP).to_le_bytes();
        for (port, data, end) in [
            (PM_CONTROL, &off[..], End::Off),
            (RESET, &[RESET_VALUE], End::Reset),
            (RESET, &[0xe], End::Reset),
            (KEYBOARD, &[KEYBOARD_RESET], End::Reset),
        ] {
            let next = board.write(Place::Port(port), data);
            assert_eq!(next, Some(Next::End(end)), "{port:#x}");
        }
        let sleep = (SLP_EN | 1 << SLP_TYP).to_le_bytes();
        for (port, data) in [
            (PM_CONTROL, &sleep[..]),
            (PM_CONTROL, &[0]),
            (PM_EVENT, &[!0, !0]),
            (KEYBOARD, &[0xaa]),
            (RESET, &[2]),
        ] {
            let next = board.write(Place::Port(port), data);
            assert!(!matches!(next, Some(Next::End(_))), "{port:#x}: {next:?}");
        }
    }

    #[test]
    fn acpi_mode_is_enabled_from_the_start_and_no_event_is_pending() {
        let mut board = board(UartMode::Ports);
        let mut registers = [!0; 8];
        assert!(board.read(Place::Port(PM_EVENT), &mut registers).is_some());
        assert_eq!(registers, [0, 0, 0, 0, 1, 0, 0, 0]);
        board.write(Place::Port(PM_EVENT + 2), &[0x20, 1]);
        let mut enable = [0; 2];
        board.read(Place::Port(PM_EVENT + 2), &mut enable);
        assert_eq!(enable, [0x20, 1]);
    }

    #[test]
    fn a_memory_mapped_port_has_no_registers_of_a_designware() {
        let mut in_memory = board(UartMode::MmioReadonly);
        // The driver's probe reads the RS-485 enable and version registers.
        for offset in [0xac, 0xb4, 0xc0, 0xf4, 0xf8, 0x1f * STRIDE] {
            let place = Place::Memory(BASE + offset);
            in_memory.write(place, &1u32.to_le_bytes());
            let mut word = [!0; 4];
            assert_eq!(in_memory.read(place, &mut word), Some(Read::Serial));
            assert_eq!(word, [0; 4], "{offset:#x}");
        }
        let beyond = Place::Memory(BASE + UART_PAGES * STRIDE);
        assert_eq!(in_memory.read(beyond, &mut [0]), None);
        let register = Place::Memory(BASE + STRIDE);
        assert_eq!(in_memory.read(register, &mut [0]), None);
        let inside = Place::Memory(BASE + 0xf8);
        assert_eq!(board(UartMode::Ports).read(inside, &mut [0]), None);
    }

    #[test]
    fn with_ecam_only_the_reset_control_remains_of_the_ports() {
        let index = 0x8000_0000u32.to_le_bytes();
        let place = Place::Port(0xcf8);
        let mut by_ports = board(UartMode::Ports);
        // The bridge itself handles this write.
        assert_eq!(by_ports.write(place, &index), None);
        assert_eq!(by_ports.read(place, &mut [0; 4]), None);
        let mut by_ecam = LinuxBoard::new(UartMode::Ports, Configuration::Ecam(0xe000_0000));
        assert_eq!(by_ecam.write(place, &index), Some(Next::GoOn));
        let mut read = [0; 4];
        assert_eq!(by_ecam.read(place, &mut read), Some(Read::Other));
        assert_eq!(read, [!0; 4]);
        let reset = by_ecam.write(Place::Port(RESET), &[RESET_VALUE]);
        assert_eq!(reset, Some(Next::End(End::Reset)));
    }
}
