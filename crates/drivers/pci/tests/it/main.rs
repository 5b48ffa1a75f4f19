//! The integration tests of nostall-pci, in one program.

mod assign;
mod bars;
mod capabilities;
mod common;
mod device_tree;
mod lspci;
mod machine;
mod methods;
mod peers;
mod records;
mod scan;
mod selector;
mod stalls;
mod windows;
