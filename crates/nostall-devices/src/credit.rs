//! A limit on work that a guest causes, without a clock.

/// Exits that pay for costly work on the host.
///
/// A guest earns with exits, and spends on work that takes its host as long as many exits. Without
/// credit, the work is put off, and the guest goes on trapping: it earns again. So the host's work
/// always stays in proportion to the guest's own exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Negative after work that cost more than can be saved up.
    left: i64,
    most: u32,
}

impl Credit {
    /// Credit for a burst: as much as can be saved up.
    pub const fn full(most: u32) -> Self {
        Self {
            left: most as i64,
            most,
        }
    }

    /// Adds `exits`, as far as they can be saved up.
    pub const fn earn(&mut self, exits: u32) {
        let (left, most) = (self.left + exits as i64, self.most as i64);
        self.left = if left < most { left } else { most };
    }

    /// Whether there is enough for `price`. The most that can be saved up is enough for
    /// any price: the guest then owes the rest.
    pub const fn covers(&self, price: u32) -> bool {
        self.left >= price as i64 || self.left == self.most as i64
    }

    /// Pays `price`; `false`, and nothing is paid, without enough credit.
    #[must_use]
    pub const fn spend(&mut self, price: u32) -> bool {
        let covers = self.covers(price);
        if covers {
            self.left -= price as i64;
        }
        covers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_paid_with_exits_and_put_off_without() {
        let mut credit = Credit::full(250);
        assert!(credit.spend(100) && credit.spend(100) && !credit.spend(100));
        credit.earn(49);
        assert!(!credit.covers(100));
        credit.earn(1);
        assert!(credit.spend(100));
        credit.earn(u32::MAX);
        assert_eq!(credit, Credit::full(250));
        // More than can be saved up can be paid, too. The rest is owed.
        assert!(credit.spend(1_000) && !credit.spend(1));
        credit.earn(750);
        assert!(!credit.covers(1));
        credit.earn(1);
        assert!(credit.spend(1));
    }
}
