//! Functions of one bus.

use crate::ari::{self, Ari};
use crate::byte_set::ByteSet;
use crate::capability::{Capabilities, Express, PortType};
use crate::{Address, ConfigAccess, Function, ScanFault};

/// Walk along one bus, with at most 256 steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OneBus {
    /// Next candidate; `None` at the end.
    next: Option<Address>,
    link: Link,
    /// Set if ARI gives the next function numbers, instead of counting.
    ari: bool,
}

impl OneBus {
    /// Creates a walk from `first`, the lowest possible function of the bus.
    pub(crate) const fn new(first: Address, link: Link) -> Self {
        Self {
            next: Some(first),
            link,
            ari: false,
        }
    }

    /// Returns the next present function or its fault, and a fault of the way to the next one.
    pub(crate) fn next<A: ConfigAccess>(
        &mut self,
        access: &A,
    ) -> Option<(Result<Function, ScanFault>, Option<ScanFault>)> {
        loop {
            let address = self.next.take()?;
            match Function::read(access.at(address)) {
                Ok(Some(function)) => {
                    let fault = self.pass(access, &function);
                    return Some((Ok(function), fault));
                }
                Ok(None) => self.pass_absent(address),
                Err(why) => {
                    self.pass_absent(address);
                    return Some((Err(ScanFault::Unread { address, why }), None));
                }
            }
        }
    }

    fn pass<A: ConfigAccess>(&mut self, access: &A, function: &Function) -> Option<ScanFault> {
        let address = function.address;
        let mut fault = None;
        if self.ari || address.devfn() == 0 && self.link == Link::Forwarding {
            match ari::next_function(access, function) {
                Ok(Some(next)) => return self.pass_to(address, next),
                // A device without ARI below a port that would forward it.
                Ok(None) => {}
                Err(why) => fault = Some(ScanFault::Capabilities { address, why }),
            }
        }
        let more = address.function() != 0 || function.multi_function;
        match more {
            _ if self.ari => {} // the next function is unknown
            true => self.pass_function(address),
            false => self.pass_device(address),
        }
        fault
    }

    /// Continues at the next function that an ARI function names.
    fn pass_to(&mut self, address: Address, next: u8) -> Option<ScanFault> {
        if next > address.devfn() {
            self.ari = true;
            self.go(address, next);
        }
        let wrong = next != 0 && next <= address.devfn();
        wrong.then_some(ScanFault::NextFunction { address, next })
    }

    fn pass_absent(&mut self, address: Address) {
        match address.function() {
            _ if self.ari => {}
            // Without function 0 there is no device (PCI 3.0, 3.2.2.3.4).
            0 => self.pass_device(address),
            _ => self.pass_function(address),
        }
    }

    fn pass_function(&mut self, address: Address) {
        match address.function() {
            7 => self.pass_device(address),
            _ => self.go(address, address.devfn() + 1),
        }
    }

    fn pass_device(&mut self, address: Address) {
        if matches!(self.link, Link::None | Link::Switch)
            && let Some(devfn) = (address.devfn() | 7).checked_add(1)
        {
            self.go(address, devfn);
        }
    }

    fn go(&mut self, address: Address, devfn: u8) {
        self.next = Some(Address::from_devfn(address.segment(), address.bus(), devfn));
    }
}

/// Kind of connection to a bus. A PCI Express link has only device 0 (PCI Express Base, 7.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// A bus with 32 devices.
    None,
    /// A bus with 32 devices, inside a switch.
    Switch,
    /// A link.
    Plain,
    /// A link whose port forwards all 256 function numbers.
    Forwarding,
}

impl Link {
    /// Returns the type of a port that leads to such a bus, if the bus belongs to PCI Express.
    const fn above(self) -> Option<PortType> {
        match self {
            Self::None => None,
            Self::Switch => Some(PortType::UpstreamPort),
            Self::Plain | Self::Forwarding => Some(PortType::DownstreamPort),
        }
    }

    /// Returns the connection to the bus `secondary`, to which `bridge` leads from a bus of this
    /// kind. Also returns faults of the bridge's type and capabilities.
    pub(crate) fn below<A: ConfigAccess>(
        self,
        access: &A,
        bridge: &Function,
        secondary: u8,
        ari: Ari,
    ) -> (Self, [Option<ScanFault>; 2]) {
        let address = bridge.address;
        let fault = |why| Some(ScanFault::Capabilities { address, why });
        for capability in Capabilities::new(access, bridge) {
            let express = match capability {
                Ok(capability) => Express::of(&capability),
                Err(why) => return (Self::None, [fault(why), None]),
            };
            let Some(express) = express else { continue };
            let above = self.above();
            let why = above.and_then(|above| express.port.wrong_below(above));
            let wrong = why.map(|why| ScanFault::Port { address, why });
            let is = why.map_or(express.port, |why| why.is);
            if is == PortType::UpstreamPort {
                return (Self::Switch, [wrong, None]);
            }
            if !is.leads_to_a_link() {
                return (Self::None, [wrong, None]);
            }
            return match ari::forwarding(access, bridge, &express, secondary, ari) {
                Ok(true) => (Self::Forwarding, [wrong, None]),
                Ok(false) => (Self::Plain, [wrong, None]),
                Err(why) => (Self::Plain, [wrong, fault(why)]),
            };
        }
        (Self::None, [None; 2])
    }
}

/// Connection of each bus, as two bits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Links {
    links: ByteSet,
    /// Forwarding links, or buses inside a switch.
    special: ByteSet,
}

impl Links {
    pub(crate) fn note(&mut self, bus: u8, link: Link) {
        if matches!(link, Link::Plain | Link::Forwarding) {
            self.links.insert(bus);
        }
        if matches!(link, Link::Switch | Link::Forwarding) {
            self.special.insert(bus);
        }
    }

    pub(crate) fn of(&self, bus: u8) -> Link {
        match (self.links.contains(bus), self.special.contains(bus)) {
            (false, false) => Link::None,
            (false, true) => Link::Switch,
            (true, false) => Link::Plain,
            (true, true) => Link::Forwarding,
        }
    }
}
