//! A limit on the host work that a guest can cause, independent of any clock.

/// Credit, in VM exits, that pays for costly work on the host.
///
/// Each exit of the guest earns credit. Work that takes the host as long as many exits spends it.
/// Without credit, the work is deferred and the guest's accesses keep trapping, which earns credit
/// again. The host's work thus stays in proportion to the guest's exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Negative after work that cost more than the limit.
    left: i64,
    most: u32,
}

impl Credit {
    /// Creates a full credit. `most` is both the limit and the initial amount, in exits.
    pub const fn full(most: u32) -> Self {
        Self {
            left: most as i64,
            most,
        }
    }

    /// Adds `exits`, up to the limit.
    pub const fn earn(&mut self, exits: u32) {
        let (left, most) = (self.left + exits as i64, self.most as i64);
        self.left = if left < most { left } else { most };
    }

    /// Returns whether the credit covers `price`. A full credit covers any price: the guest then
    /// owes the rest.
    pub const fn covers(&self, price: u32) -> bool {
        self.left >= price as i64 || self.left == self.most as i64
    }

    /// Pays `price`. Without enough credit, it pays nothing and returns `false`.
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
    fn exits_pay_for_work_and_work_is_deferred_without_credit() {
        let mut credit = Credit::full(250);
        assert!(credit.spend(100) && credit.spend(100) && !credit.spend(100));
        credit.earn(49);
        assert!(!credit.covers(100));
        credit.earn(1);
        assert!(credit.spend(100));
        credit.earn(u32::MAX);
        assert_eq!(credit, Credit::full(250));
        // A full credit pays a price above the limit. The rest is owed.
        assert!(credit.spend(1_000) && !credit.spend(1));
        credit.earn(750);
        assert!(!credit.covers(1));
        credit.earn(1);
        assert!(credit.spend(1));
    }
}
