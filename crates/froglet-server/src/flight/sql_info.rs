//! What this server can do, and which types it has.

use std::sync::LazyLock;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow_flight::sql::metadata::{
    SqlInfoData, SqlInfoDataBuilder, XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder,
};
use arrow_flight::sql::{
    CommandGetSqlInfo, CommandGetXdbcTypeInfo, Nullable, Searchable, SqlInfo, SqlNullOrdering,
    SqlSupportedCaseSensitivity, SqlSupportedTransaction, XdbcDataType,
};

static INFOS: LazyLock<SqlInfoData> = LazyLock::new(|| {
    let mut infos = SqlInfoDataBuilder::new();
    infos.append(SqlInfo::FlightSqlServerName, "Froglet");
    infos.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    infos.append(SqlInfo::FlightSqlServerArrowVersion, "1.3");
    infos.append(SqlInfo::FlightSqlServerReadOnly, false);
    infos.append(SqlInfo::FlightSqlServerSql, true);
    infos.append(SqlInfo::FlightSqlServerSubstrait, false);
    infos.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::Savepoint as i32);
    infos.append(SqlInfo::FlightSqlServerCancel, true);
    infos.append(SqlInfo::FlightSqlServerBulkIngestion, true);
    infos.append(SqlInfo::FlightSqlServerIngestTransactionsSupported, true);
    infos.append(SqlInfo::FlightSqlServerStatementTimeout, 0);
    infos.append(SqlInfo::FlightSqlServerTransactionTimeout, 0);
    infos.append(SqlInfo::SqlDdlCatalog, false);
    infos.append(SqlInfo::SqlDdlSchema, false);
    infos.append(SqlInfo::SqlDdlTable, true);
    let lower = SqlSupportedCaseSensitivity::SqlCaseSensitivityLowercase as i32;
    infos.append(SqlInfo::SqlIdentifierCase, lower);
    infos.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    let unknown = SqlSupportedCaseSensitivity::SqlCaseSensitivityUnknown as i32;
    infos.append(SqlInfo::SqlQuotedIdentifierCase, unknown);
    infos.append(SqlInfo::SqlAllTablesAreSelectable, true);
    infos.append(SqlInfo::SqlNullOrdering, SqlNullOrdering::SqlNullsSortedHigh as i32);
    infos.append(SqlInfo::SqlSearchStringEscape, "\\");
    infos.append(SqlInfo::SqlSupportsColumnAliasing, true);
    infos.append(SqlInfo::SqlNullPlusNullIsNull, true);
    infos.append(SqlInfo::SqlSupportsNonNullableColumns, true);
    infos.append(SqlInfo::SqlSchemaTerm, "schema");
    infos.append(SqlInfo::SqlCatalogTerm, "database");
    infos.append(SqlInfo::SqlTransactionsSupported, true);
    infos.append(SqlInfo::SqlDataDefinitionCausesTransactionCommit, false);
    infos.append(SqlInfo::SqlDataDefinitionsInTransactionsIgnored, false);
    infos.append(SqlInfo::SqlBatchUpdatesSupported, true);
    infos.append(SqlInfo::SqlSavepointsSupported, true);
    infos.append(SqlInfo::SqlNamedParametersSupported, false);
    infos.build().expect("every value is of a kind that there is")
});

/// Those that are asked for; all, if none is.
pub(super) fn infos(command: CommandGetSqlInfo) -> Result<RecordBatch, ArrowError> {
    INFOS.record_batch(command.info).map_err(|e| ArrowError::ExternalError(Box::new(e)))
}

/// Name, kind, number of digits or characters, what may stand in brackets, base of its digits.
type TypeLine = (&'static str, XdbcDataType, Option<i32>, &'static [&'static str], Option<i32>);

const TYPES: &[TypeLine] = &[
    ("boolean", XdbcDataType::XdbcBit, None, &[], None),
    ("smallint", XdbcDataType::XdbcSmallint, Some(16), &[], Some(2)),
    ("integer", XdbcDataType::XdbcInteger, Some(32), &[], Some(2)),
    ("bigint", XdbcDataType::XdbcBigint, Some(64), &[], Some(2)),
    ("real", XdbcDataType::XdbcReal, Some(24), &[], Some(2)),
    ("double precision", XdbcDataType::XdbcDouble, Some(53), &[], Some(2)),
    ("numeric", XdbcDataType::XdbcNumeric, Some(38), &["precision", "scale"], Some(10)),
    ("text", XdbcDataType::XdbcVarchar, None, &[], None),
    ("character varying", XdbcDataType::XdbcVarchar, Some(10_485_760), &["length"], None),
    ("character", XdbcDataType::XdbcChar, Some(10_485_760), &["length"], None),
    ("bytea", XdbcDataType::XdbcVarbinary, None, &[], None),
    ("date", XdbcDataType::XdbcDate, None, &[], None),
    ("timestamp without time zone", XdbcDataType::XdbcTimestamp, Some(6), &[], None),
    ("timestamp with time zone", XdbcDataType::XdbcTimestamp, Some(6), &[], None),
    ("uuid", XdbcDataType::XdbcBinary, Some(16), &[], None),
];

static TYPE_INFOS: LazyLock<XdbcTypeInfoData> = LazyLock::new(|| {
    let mut types = XdbcTypeInfoDataBuilder::new();
    for (name, kind, size, params, radix) in TYPES {
        let quoted = radix.is_none() && *kind != XdbcDataType::XdbcBit;
        let quote = quoted.then(|| "'".to_owned());
        types.append(XdbcTypeInfo {
            type_name: (*name).to_owned(),
            data_type: *kind,
            column_size: *size,
            literal_prefix: quote.clone(),
            literal_suffix: quote,
            create_params: (!params.is_empty())
                .then(|| params.iter().map(|param| (*param).to_owned()).collect()),
            nullable: Nullable::NullabilityNullable,
            case_sensitive: matches!(kind, XdbcDataType::XdbcVarchar | XdbcDataType::XdbcChar),
            searchable: Searchable::Full,
            unsigned_attribute: radix.map(|_| false),
            fixed_prec_scale: false,
            auto_increment: radix.map(|_| false),
            local_type_name: Some((*name).to_owned()),
            minimum_scale: (*kind == XdbcDataType::XdbcNumeric).then_some(0),
            maximum_scale: (*kind == XdbcDataType::XdbcNumeric).then_some(38),
            sql_data_type: *kind,
            datetime_subcode: None,
            num_prec_radix: *radix,
            interval_precision: None,
        });
    }
    types.build().expect("every line is complete")
});

/// The types there are, or those of a kind.
pub(super) fn types(command: CommandGetXdbcTypeInfo) -> Result<RecordBatch, ArrowError> {
    let batch = TYPE_INFOS.record_batch(command.data_type);
    batch.map_err(|e| ArrowError::ExternalError(Box::new(e)))
}
