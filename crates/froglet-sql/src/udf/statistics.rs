//! Statistical aggregates: variances, covariances, regressions.
//!
//! Of double precision they are computed as PostgreSQL computes them, by sums of squares of deviations
//! that grow with each value (Youngs and Cramer, 1971). Of integers and numeric they are exact, from the
//! sum and the sum of squares ([`super::numbers`]).

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};

use super::distinct;
use super::numbers::{self, What};
use crate::semantics::numerics::is_number;
use crate::types::EXACT;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Variance,
    PopulationVariance,
    Deviation,
    PopulationDeviation,
    Covariance,
    PopulationCovariance,
    Correlation,
    Slope,
    Intercept,
    Determination,
    MeanX,
    MeanY,
    Count,
    SquaresX,
    SquaresY,
    Products,
}

impl Kind {
    fn of_one(self) -> bool {
        self.of_numerics().is_some()
    }

    /// What is made of numerics.
    fn of_numerics(self) -> Option<What> {
        Some(match self {
            Kind::Variance => What::Variance,
            Kind::PopulationVariance => What::PopulationVariance,
            Kind::Deviation => What::Deviation,
            Kind::PopulationDeviation => What::PopulationDeviation,
            _ => return None,
        })
    }
}

/// The aggregates by their names.
const NAMES: &[(&str, Kind)] = &[
    ("variance", Kind::Variance),
    ("var", Kind::Variance),
    ("var_samp", Kind::Variance),
    ("var_pop", Kind::PopulationVariance),
    ("stddev", Kind::Deviation),
    ("stddev_samp", Kind::Deviation),
    ("stddev_pop", Kind::PopulationDeviation),
    ("covar_samp", Kind::Covariance),
    ("covar_pop", Kind::PopulationCovariance),
    ("corr", Kind::Correlation),
    ("regr_slope", Kind::Slope),
    ("regr_intercept", Kind::Intercept),
    ("regr_r2", Kind::Determination),
    ("regr_avgx", Kind::MeanX),
    ("regr_avgy", Kind::MeanY),
    ("regr_count", Kind::Count),
    ("regr_sxx", Kind::SquaresX),
    ("regr_syy", Kind::SquaresY),
    ("regr_sxy", Kind::Products),
];

/// Whether an aggregate is one of pairs of double precision numbers.
pub fn of_pairs(name: &str) -> bool {
    NAMES.iter().any(|(known, kind)| *known == name && !kind.of_one())
}

/// The aggregates.
pub fn functions() -> Vec<Arc<AggregateUDF>> {
    let of = |(name, kind): &(&'static str, Kind)| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(Statistic { name, kind: *kind, signature }))
    };
    NAMES.iter().map(of).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Statistic {
    name: &'static str,
    kind: Kind,
    signature: Signature,
}

impl AggregateUDFImpl for Statistic {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        // Utf8 is a literal's that has no type of its own.
        let number = |ty: &DataType| is_number(ty) || matches!(ty, DataType::Null | DataType::Utf8);
        match types {
            [ty] if self.kind.of_one() && number(ty) => Ok(vec![match ty {
                DataType::Decimal128(..) | &EXACT => ty.clone(),
                ty if ty.is_integer() => DataType::Decimal128(38, 0),
                _ => DataType::Float64,
            }]),
            [y, x] if !self.kind.of_one() && number(y) && number(x) => {
                // What is exact is cast where the rest is known.
                let float = |ty: &DataType| if *ty == EXACT { EXACT } else { DataType::Float64 };
                Ok(vec![float(y), float(x)])
            }
            _ => Err(crate::df_error::no_function(self.name).into()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match types.first() {
            _ if self.kind == Kind::Count => DataType::Int64,
            Some(DataType::Decimal128(..) | &EXACT) => EXACT,
            _ => DataType::Float64,
        })
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let numeric = matches!(args.expr_fields[0].data_type(), DataType::Decimal128(..) | &EXACT);
        Ok(match self.kind.of_numerics().filter(|_| numeric) {
            Some(what) => numbers::accumulator(what, args.is_distinct),
            None if args.is_distinct => {
                let types = args.expr_fields.iter().map(|field| field.data_type().clone());
                distinct::accumulator(Box::new(Sums::of(self.kind)), types.collect())
            }
            None => Box::new(Sums::of(self.kind)),
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |at: usize, ty: DataType| -> FieldRef {
            Arc::new(Field::new(format!("{}[{at}]", args.name), ty, true))
        };
        Ok(match args.input_fields[0].data_type() {
            ty if args.is_distinct && *ty == DataType::Float64 => distinct::state_fields(&args),
            DataType::Decimal128(..) | &EXACT => vec![numbers::state_field(args.name)],
            _ => (0..6).map(|at| field(at, DataType::Float64)).collect(),
        })
    }
}

/// Numbers of values, their sums, and the sums of squares and products of their deviations.
#[derive(Debug, Clone, Copy)]
struct Sums {
    kind: Kind,
    n: f64,
    x: f64,
    xx: f64,
    y: f64,
    yy: f64,
    xy: f64,
}

impl Sums {
    fn of(kind: Kind) -> Sums {
        Sums { kind, n: 0.0, x: 0.0, xx: 0.0, y: 0.0, yy: 0.0, xy: 0.0 }
    }

    fn add(&mut self, x: f64, y: f64) {
        let before = self.n;
        self.n += 1.0;
        self.x += x;
        self.y += y;
        if before > 0.0 {
            let (dx, dy) = (x * self.n - self.x, y * self.n - self.y);
            if self.kind.of_one() {
                self.xx += dx * dx / (self.n * before);
                return;
            }
            let scale = 1.0 / (self.n * before);
            self.xx += dx * dx * scale;
            self.yy += dy * dy * scale;
            self.xy += dx * dy * scale;
        } else {
            // What is no number makes none of what is summed up, though one value deviates from nothing.
            let of_x = if x.is_finite() { 0.0 } else { f64::NAN };
            let of_y = if y.is_finite() { 0.0 } else { f64::NAN };
            (self.xx, self.yy, self.xy) = (of_x, of_y, of_x + of_y);
        }
    }

    fn merge(&mut self, other: &Sums) {
        if self.n == 0.0 || other.n == 0.0 {
            if self.n == 0.0 {
                *self = *other;
            }
            return;
        }
        let n = self.n + other.n;
        let (dx, dy) = (self.x / self.n - other.x / other.n, self.y / self.n - other.y / other.n);
        let weight = self.n * other.n / n;
        self.xx += other.xx + weight * dx * dx;
        self.yy += other.yy + weight * dy * dy;
        self.xy += other.xy + weight * dx * dy;
        self.x += other.x;
        self.y += other.y;
        self.n = n;
    }

    fn value(&self) -> Option<f64> {
        use Kind::*;
        let some = self.n >= 1.0;
        let several = self.n >= 2.0;
        match self.kind {
            Variance => several.then(|| self.xx / (self.n - 1.0)),
            PopulationVariance => some.then(|| self.xx / self.n),
            Deviation => several.then(|| (self.xx / (self.n - 1.0)).sqrt()),
            PopulationDeviation => some.then(|| (self.xx / self.n).sqrt()),
            Covariance => several.then(|| self.xy / (self.n - 1.0)),
            PopulationCovariance => some.then(|| self.xy / self.n),
            Correlation => (some && self.xx != 0.0 && self.yy != 0.0)
                .then(|| self.xy / (self.xx * self.yy).sqrt()),
            Slope => (some && self.xx != 0.0).then(|| self.xy / self.xx),
            Intercept => {
                (some && self.xx != 0.0).then(|| (self.y - self.x * self.xy / self.xx) / self.n)
            }
            Determination if some && self.xx != 0.0 => Some(match self.yy {
                0.0 => 1.0,
                yy => (self.xy * self.xy) / (self.xx * yy),
            }),
            Determination => None,
            MeanX => some.then(|| self.x / self.n),
            MeanY => some.then(|| self.y / self.n),
            SquaresX => some.then_some(self.xx),
            SquaresY => some.then_some(self.yy),
            Products => some.then_some(self.xy),
            Count => Some(self.n),
        }
    }
}

impl Accumulator for Sums {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let y = values[0].as_primitive::<Float64Type>();
        let x = values.get(1).unwrap_or(&values[0]).as_primitive::<Float64Type>();
        for row in (0..y.len()).filter(|row| x.is_valid(*row) && y.is_valid(*row)) {
            self.add(x.value(row), y.value(row));
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let column = |at: usize| states[at].as_primitive::<Float64Type>();
        for row in 0..states[0].len() {
            let at = |column_number| column(column_number).value(row);
            let other = Sums {
                kind: self.kind,
                n: at(0),
                x: at(1),
                xx: at(2),
                y: at(3),
                yy: at(4),
                xy: at(5),
            };
            self.merge(&other);
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(match self.kind {
            Kind::Count => ScalarValue::Int64(Some(self.n as i64)),
            _ => ScalarValue::Float64(self.value()),
        })
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let all = [self.n, self.x, self.xx, self.y, self.yy, self.xy];
        Ok(all.map(|sum| ScalarValue::Float64(Some(sum))).into())
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
