//! What terminals enter (clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1, 2.8.1) and how often (5.2.3).

use super::db::{DISTRICTS, Scale};
use super::random::Random;

/// A transaction type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

/// Every type, in the order of [`Kind`].
pub const KINDS: [Kind; 5] =
    [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::Delivery, Kind::StockLevel];

impl Kind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::NewOrder => "NewOrder",
            Kind::Payment => "Payment",
            Kind::OrderStatus => "OrderStatus",
            Kind::Delivery => "Delivery",
            Kind::StockLevel => "StockLevel",
        }
    }

    /// The next of the mix: 45, 43, 4, 4 and 4 in a hundred.
    pub fn draw(random: &mut Random) -> Kind {
        match random.uniform(0, 99) {
            0..45 => Kind::NewOrder,
            45..88 => Kind::Payment,
            88..92 => Kind::OrderStatus,
            92..96 => Kind::Delivery,
            _ => Kind::StockLevel,
        }
    }
}

/// One line of a new order.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The item; above every item's number where the order shall be rolled back.
    pub item: i32,
    /// The warehouse that supplies it.
    pub supply_warehouse: i32,
    /// How many.
    pub quantity: i32,
}

/// New-Order.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct NewOrder {
    pub warehouse: i32,
    pub district: i32,
    pub customer: i32,
    pub lines: Vec<Line>,
}

/// A customer, as a terminal names one.
#[derive(Clone, Debug)]
pub enum Who {
    /// By number.
    Number(i32),
    /// By last name: the middle one of those, by first name.
    LastName(String),
}

/// Payment.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Payment {
    pub warehouse: i32,
    pub district: i32,
    pub customer_warehouse: i32,
    pub customer_district: i32,
    pub customer: Who,
    pub amount_cents: i128,
}

/// Order-Status.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct OrderStatus {
    pub warehouse: i32,
    pub district: i32,
    pub customer: Who,
}

/// Delivery.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Delivery {
    pub warehouse: i32,
    pub carrier: i32,
}

/// Stock-Level.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct StockLevel {
    pub warehouse: i32,
    pub district: i32,
    pub threshold: i32,
}

/// Enters orders for one warehouse.
pub struct Terminal {
    /// Its random numbers.
    pub random: Random,
    warehouse: i32,
    scale: Scale,
    hot_customers: Option<i32>,
}

impl Terminal {
    /// Of a home warehouse.
    pub fn new(warehouse: i32, scale: Scale, seed: u64) -> Terminal {
        assert!((1..=scale.warehouses).contains(&warehouse), "a terminal has a home");
        Terminal { random: Random::new(seed), warehouse, scale, hot_customers: None }
    }

    /// Enters customers by number, uniformly among the first so many of a district.
    pub fn with_hot_customers(self, customers: i32) -> Terminal {
        Terminal { hot_customers: Some(customers), ..self }
    }

    /// Makes one of these warehouses its home, picked at random.
    pub fn move_to_one_of(&mut self, homes: &[i32]) {
        let last = i32::try_from(homes.len()).expect("there are fewer warehouses than 2^31") - 1;
        self.warehouse = homes[self.random.uniform(0, last) as usize];
    }

    /// Items are numbered from 1 to this.
    pub fn items(&self) -> i32 {
        self.scale.items
    }

    fn customer(&mut self) -> i32 {
        match self.hot_customers {
            Some(hot) => self.random.uniform(1, hot),
            None => self.random.customer(self.scale.customers),
        }
    }

    fn district(&mut self) -> i32 {
        self.random.uniform(1, DISTRICTS)
    }

    /// Another warehouse than home; home if it is the only one.
    fn other_warehouse(&mut self) -> i32 {
        if self.scale.warehouses == 1 {
            return self.warehouse;
        }
        let other = self.random.uniform(1, self.scale.warehouses - 1);
        if other >= self.warehouse { other + 1 } else { other }
    }

    fn who(&mut self) -> Who {
        if self.hot_customers.is_none() && self.random.percent(60) {
            Who::LastName(self.random.last_name(self.scale.customers))
        } else {
            Who::Number(self.customer())
        }
    }

    /// A new order. One in a hundred asks for an item that does not exist.
    pub fn new_order(&mut self) -> NewOrder {
        let district = self.district();
        let customer = self.customer();
        let count = self.random.uniform(5, 15);
        let mut lines: Vec<Line> = (0..count).map(|_| self.line()).collect();
        if self.random.percent(1)
            && let Some(last) = lines.last_mut()
        {
            last.item = self.scale.items + 1;
        }
        NewOrder { warehouse: self.warehouse, district, customer, lines }
    }

    fn line(&mut self) -> Line {
        let remote = self.random.percent(1);
        Line {
            item: self.random.item(self.scale.items),
            supply_warehouse: if remote { self.other_warehouse() } else { self.warehouse },
            quantity: self.random.uniform(1, 10),
        }
    }

    /// A payment, 15 in a hundred by a customer of another warehouse.
    pub fn payment(&mut self) -> Payment {
        let district = self.district();
        let home = self.random.percent(85) || self.scale.warehouses == 1;
        let (customer_warehouse, customer_district) = if home {
            (self.warehouse, district)
        } else {
            (self.other_warehouse(), self.district())
        };
        Payment {
            warehouse: self.warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer: self.who(),
            amount_cents: self.random.cents(100, 500_000),
        }
    }

    /// A question for a customer's last order.
    pub fn order_status(&mut self) -> OrderStatus {
        OrderStatus { warehouse: self.warehouse, district: self.district(), customer: self.who() }
    }

    /// A delivery of the oldest order of every district.
    pub fn delivery(&mut self) -> Delivery {
        Delivery { warehouse: self.warehouse, carrier: self.random.uniform(1, 10) }
    }

    /// A question for items that run out.
    pub fn stock_level(&mut self) -> StockLevel {
        StockLevel {
            warehouse: self.warehouse,
            district: self.district(),
            threshold: self.random.uniform(10, 20),
        }
    }
}
