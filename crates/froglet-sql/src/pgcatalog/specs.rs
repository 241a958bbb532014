//! The columns of the system tables, as PostgreSQL 15 has them: `name type`, `!` for NOT NULL.
//!
//! Types that Froglet lacks stand as the nearest it has: pg_node_tree, inet and pg_lsn as text,
//! arrays of theirs as text[], the domains of information_schema as what is under them.

/// One system table.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// Its schema.
    pub schema: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its oid.
    pub oid: u32,
    /// pg_class.relkind
    pub kind: char,
    /// Its columns.
    pub columns: &'static str,
}

const fn spec(
    schema: &'static str,
    name: &'static str,
    oid: u32,
    kind: char,
    columns: &'static str,
) -> Spec {
    Spec { schema, name, oid, kind, columns }
}

/// Every system table.
#[rustfmt::skip]
pub const SPECS: &[Spec] = &[
    spec("pg_catalog", "pg_class", 1259, 'r', "\
        oid oid!, relname name!, relnamespace oid!, reltype oid!, reloftype oid!, relowner oid!, \
        relam oid!, relfilenode oid!, reltablespace oid!, relpages int4!, reltuples float4!, \
        relallvisible int4!, reltoastrelid oid!, relhasindex bool!, relisshared bool!, \
        relpersistence char!, relkind char!, relnatts int2!, relchecks int2!, relhasrules bool!, \
        relhastriggers bool!, relhassubclass bool!, relrowsecurity bool!, relforcerowsecurity \
        bool!, relispopulated bool!, relreplident char!, relispartition bool!, relrewrite oid!, \
        relfrozenxid xid!, relminmxid xid!, relacl _aclitem, reloptions _text, relpartbound text"),
    spec("pg_catalog", "pg_namespace", 2615, 'r', "\
        oid oid!, nspname name!, nspowner oid!, nspacl _aclitem"),
    spec("pg_catalog", "pg_attribute", 1249, 'r', "\
        attrelid oid!, attname name!, atttypid oid!, attstattarget int4!, attlen int2!, attnum \
        int2!, attndims int4!, attcacheoff int4!, atttypmod int4!, attbyval bool!, attalign \
        char!, attstorage char!, attcompression char!, attnotnull bool!, atthasdef bool!, \
        atthasmissing bool!, attidentity char!, attgenerated char!, attisdropped bool!, \
        attislocal bool!, attinhcount int4!, attcollation oid!, attacl _aclitem, attoptions \
        _text, attfdwoptions _text, attmissingval text"),
    spec("pg_catalog", "pg_attrdef", 2604, 'r', "\
        oid oid!, adrelid oid!, adnum int2!, adbin text!"),
    spec("pg_catalog", "pg_type", 1247, 'r', "\
        oid oid!, typname name!, typnamespace oid!, typowner oid!, typlen int2!, typbyval bool!, \
        typtype char!, typcategory char!, typispreferred bool!, typisdefined bool!, typdelim \
        char!, typrelid oid!, typsubscript regproc!, typelem oid!, typarray oid!, typinput \
        regproc!, typoutput regproc!, typreceive regproc!, typsend regproc!, typmodin regproc!, \
        typmodout regproc!, typanalyze regproc!, typalign char!, typstorage char!, typnotnull \
        bool!, typbasetype oid!, typtypmod int4!, typndims int4!, typcollation oid!, \
        typdefaultbin text, typdefault text, typacl _aclitem"),
    spec("pg_catalog", "pg_index", 2610, 'r', "\
        indexrelid oid!, indrelid oid!, indnatts int2!, indnkeyatts int2!, indisunique bool!, \
        indnullsnotdistinct bool!, indisprimary bool!, indisexclusion bool!, indimmediate bool!, \
        indisclustered bool!, indisvalid bool!, indcheckxmin bool!, indisready bool!, indislive \
        bool!, indisreplident bool!, indkey int2vector!, indcollation oidvector!, indclass \
        oidvector!, indoption int2vector!, indexprs text, indpred text"),
    spec("pg_catalog", "pg_constraint", 2606, 'r', "\
        oid oid!, conname name!, connamespace oid!, contype char!, condeferrable bool!, \
        condeferred bool!, convalidated bool!, conrelid oid!, contypid oid!, conindid oid!, \
        conparentid oid!, confrelid oid!, confupdtype char!, confdeltype char!, confmatchtype \
        char!, conislocal bool!, coninhcount int4!, connoinherit bool!, conkey _int2, confkey \
        _int2, conpfeqop _oid, conppeqop _oid, conffeqop _oid, confdelsetcols _int2, conexclop \
        _oid, conbin text"),
    spec("pg_catalog", "pg_am", 2601, 'r', "\
        oid oid!, amname name!, amhandler regproc!, amtype char!"),
    spec("pg_catalog", "pg_database", 1262, 'r', "\
        oid oid!, datname name!, datdba oid!, encoding int4!, datlocprovider char!, \
        datistemplate bool!, datallowconn bool!, datconnlimit int4!, datfrozenxid xid!, \
        datminmxid xid!, dattablespace oid!, datcollate text!, datctype text!, daticulocale \
        text, datcollversion text, datacl _aclitem"),
    spec("pg_catalog", "pg_roles", 12_000, 'v', "\
        rolname name, rolsuper bool, rolinherit bool, rolcreaterole bool, rolcreatedb bool, \
        rolcanlogin bool, rolreplication bool, rolconnlimit int4, rolpassword text, \
        rolvaliduntil timestamptz, rolbypassrls bool, rolconfig _text, oid oid"),
    spec("pg_catalog", "pg_authid", 1260, 'r', "\
        oid oid!, rolname name!, rolsuper bool!, rolinherit bool!, rolcreaterole bool!, \
        rolcreatedb bool!, rolcanlogin bool!, rolreplication bool!, rolbypassrls bool!, \
        rolconnlimit int4!, rolpassword text, rolvaliduntil timestamptz"),
    spec("pg_catalog", "pg_user", 12_014, 'v', "\
        usename name, usesysid oid, usecreatedb bool, usesuper bool, userepl bool, usebypassrls \
        bool, passwd text, valuntil timestamptz, useconfig _text"),
    spec("pg_catalog", "pg_auth_members", 1261, 'r', "\
        roleid oid!, member oid!, grantor oid!, admin_option bool!"),
    spec("pg_catalog", "pg_tables", 12_033, 'v', "\
        schemaname name, tablename name, tableowner name, tablespace name, hasindexes bool, \
        hasrules bool, hastriggers bool, rowsecurity bool"),
    spec("pg_catalog", "pg_indexes", 12_043, 'v', "\
        schemaname name, tablename name, indexname name, tablespace name, indexdef text"),
    spec("pg_catalog", "pg_views", 12_028, 'v', "\
        schemaname name, viewname name, viewowner name, definition text"),
    spec("pg_catalog", "pg_matviews", 12_038, 'v', "\
        schemaname name, matviewname name, matviewowner name, tablespace name, hasindexes bool, \
        ispopulated bool, definition text"),
    spec("pg_catalog", "pg_sequences", 12_048, 'v', "\
        schemaname name, sequencename name, sequenceowner name, data_type regtype, start_value \
        int8, min_value int8, max_value int8, increment_by int8, cycle bool, cache_size int8, \
        last_value int8"),
    spec("pg_catalog", "pg_settings", 12_104, 'v', "\
        name text, setting text, unit text, category text, short_desc text, extra_desc text, \
        context text, vartype text, source text, min_val text, max_val text, enumvals _text, \
        boot_val text, reset_val text, sourcefile text, sourceline int4, pending_restart bool"),
    spec("pg_catalog", "pg_stat_activity", 12_222, 'v', "\
        datid oid, datname name, pid int4, leader_pid int4, usesysid oid, usename name, \
        application_name text, client_addr text, client_hostname text, client_port int4, \
        backend_start timestamptz, xact_start timestamptz, query_start timestamptz, state_change \
        timestamptz, wait_event_type text, wait_event text, state text, backend_xid xid, \
        backend_xmin xid, query_id int8, query text, backend_type text"),
    spec("pg_catalog", "pg_stat_progress_copy", 12_275, 'v', "\
        pid int4, datid oid, datname name, relid oid, command text, type text, bytes_processed \
        int8, bytes_total int8, tuples_processed int8, tuples_excluded int8"),
    spec("pg_catalog", "pg_description", 2609, 'r', "\
        objoid oid!, classoid oid!, objsubid int4!, description text!"),
    spec("pg_catalog", "pg_shdescription", 2396, 'r', "\
        objoid oid!, classoid oid!, description text!"),
    spec("pg_catalog", "pg_inherits", 2611, 'r', "\
        inhrelid oid!, inhparent oid!, inhseqno int4!, inhdetachpending bool!"),
    spec("pg_catalog", "pg_policy", 3256, 'r', "\
        oid oid!, polname name!, polrelid oid!, polcmd char!, polpermissive bool!, polroles \
        _oid!, polqual text, polwithcheck text"),
    spec("pg_catalog", "pg_statistic_ext", 3381, 'r', "\
        oid oid!, stxrelid oid!, stxname name!, stxnamespace oid!, stxowner oid!, stxstattarget \
        int4!, stxkeys int2vector!, stxkind _text!, stxexprs text"),
    spec("pg_catalog", "pg_publication", 6104, 'r', "\
        oid oid!, pubname name!, pubowner oid!, puballtables bool!, pubinsert bool!, pubupdate \
        bool!, pubdelete bool!, pubtruncate bool!, pubviaroot bool!"),
    spec("pg_catalog", "pg_publication_rel", 6106, 'r', "\
        oid oid!, prpubid oid!, prrelid oid!, prqual text, prattrs int2vector"),
    spec("pg_catalog", "pg_publication_namespace", 6237, 'r', "\
        oid oid!, pnpubid oid!, pnnspid oid!"),
    spec("pg_catalog", "pg_collation", 3456, 'r', "\
        oid oid!, collname name!, collnamespace oid!, collowner oid!, collprovider char!, \
        collisdeterministic bool!, collencoding int4!, collcollate text, collctype text, \
        colliculocale text, collversion text"),
    spec("pg_catalog", "pg_sequence", 2224, 'r', "\
        seqrelid oid!, seqtypid oid!, seqstart int8!, seqincrement int8!, seqmax int8!, seqmin \
        int8!, seqcache int8!, seqcycle bool!"),
    spec("pg_catalog", "pg_proc", 1255, 'r', "\
        oid oid!, proname name!, pronamespace oid!, proowner oid!, prolang oid!, procost \
        float4!, prorows float4!, provariadic oid!, prosupport regproc!, prokind char!, \
        prosecdef bool!, proleakproof bool!, proisstrict bool!, proretset bool!, provolatile \
        char!, proparallel char!, pronargs int2!, pronargdefaults int2!, prorettype oid!, \
        proargtypes oidvector!, proallargtypes _oid, proargmodes _text, proargnames _text, \
        proargdefaults text, protrftypes _oid, prosrc text!, probin text, prosqlbody text, \
        proconfig _text, proacl _aclitem"),
    spec("pg_catalog", "pg_depend", 2608, 'r', "\
        classid oid!, objid oid!, objsubid int4!, refclassid oid!, refobjid oid!, refobjsubid \
        int4!, deptype char!"),
    spec("pg_catalog", "pg_shdepend", 1214, 'r', "\
        dbid oid!, classid oid!, objid oid!, objsubid int4!, refclassid oid!, refobjid oid!, \
        deptype char!"),
    spec("pg_catalog", "pg_trigger", 2620, 'r', "\
        oid oid!, tgrelid oid!, tgparentid oid!, tgname name!, tgfoid oid!, tgtype int2!, \
        tgenabled char!, tgisinternal bool!, tgconstrrelid oid!, tgconstrindid oid!, \
        tgconstraint oid!, tgdeferrable bool!, tginitdeferred bool!, tgnargs int2!, tgattr \
        int2vector!, tgargs bytea!, tgqual text, tgoldtable name, tgnewtable name"),
    spec("pg_catalog", "pg_event_trigger", 3466, 'r', "\
        oid oid!, evtname name!, evtevent name!, evtowner oid!, evtfoid oid!, evtenabled char!, \
        evttags _text"),
    spec("pg_catalog", "pg_foreign_table", 3118, 'r', "\
        ftrelid oid!, ftserver oid!, ftoptions _text"),
    spec("pg_catalog", "pg_foreign_server", 1417, 'r', "\
        oid oid!, srvname name!, srvowner oid!, srvfdw oid!, srvtype text, srvversion text, \
        srvacl _aclitem, srvoptions _text"),
    spec("pg_catalog", "pg_foreign_data_wrapper", 2328, 'r', "\
        oid oid!, fdwname name!, fdwowner oid!, fdwhandler oid!, fdwvalidator oid!, fdwacl \
        _aclitem, fdwoptions _text"),
    spec("pg_catalog", "pg_user_mapping", 1418, 'r', "\
        oid oid!, umuser oid!, umserver oid!, umoptions _text"),
    spec("pg_catalog", "pg_extension", 3079, 'r', "\
        oid oid!, extname name!, extowner oid!, extnamespace oid!, extrelocatable bool!, \
        extversion text!, extconfig _oid, extcondition _text"),
    spec("pg_catalog", "pg_tablespace", 1213, 'r', "\
        oid oid!, spcname name!, spcowner oid!, spcacl _aclitem, spcoptions _text"),
    spec("pg_catalog", "pg_enum", 3501, 'r', "\
        oid oid!, enumtypid oid!, enumsortorder float4!, enumlabel name!"),
    spec("pg_catalog", "pg_range", 3541, 'r', "\
        rngtypid oid!, rngsubtype oid!, rngmultitypid oid!, rngcollation oid!, rngsubopc oid!, \
        rngcanonical regproc!, rngsubdiff regproc!"),
    spec("pg_catalog", "pg_rewrite", 2618, 'r', "\
        oid oid!, rulename name!, ev_class oid!, ev_type char!, ev_enabled char!, is_instead \
        bool!, ev_qual text!, ev_action text!"),
    spec("pg_catalog", "pg_language", 2612, 'r', "\
        oid oid!, lanname name!, lanowner oid!, lanispl bool!, lanpltrusted bool!, lanplcallfoid \
        oid!, laninline oid!, lanvalidator oid!, lanacl _aclitem"),
    spec("pg_catalog", "pg_operator", 2617, 'r', "\
        oid oid!, oprname name!, oprnamespace oid!, oprowner oid!, oprkind char!, oprcanmerge \
        bool!, oprcanhash bool!, oprleft oid!, oprright oid!, oprresult oid!, oprcom oid!, \
        oprnegate oid!, oprcode regproc!, oprrest regproc!, oprjoin regproc!"),
    spec("pg_catalog", "pg_opclass", 2616, 'r', "\
        oid oid!, opcmethod oid!, opcname name!, opcnamespace oid!, opcowner oid!, opcfamily \
        oid!, opcintype oid!, opcdefault bool!, opckeytype oid!"),
    spec("pg_catalog", "pg_cast", 2605, 'r', "\
        oid oid!, castsource oid!, casttarget oid!, castfunc oid!, castcontext char!, castmethod \
        char!"),
    spec("pg_catalog", "pg_aggregate", 2600, 'r', "\
        aggfnoid regproc!, aggkind char!, aggnumdirectargs int2!, aggtransfn regproc!, \
        aggfinalfn regproc!, aggcombinefn regproc!, aggserialfn regproc!, aggdeserialfn \
        regproc!, aggmtransfn regproc!, aggminvtransfn regproc!, aggmfinalfn regproc!, \
        aggfinalextra bool!, aggmfinalextra bool!, aggfinalmodify char!, aggmfinalmodify char!, \
        aggsortop oid!, aggtranstype oid!, aggtransspace int4!, aggmtranstype oid!, \
        aggmtransspace int4!, agginitval text, aggminitval text"),
    spec("pg_catalog", "pg_partitioned_table", 3350, 'r', "\
        partrelid oid!, partstrat char!, partnatts int2!, partdefid oid!, partattrs int2vector!, \
        partclass oidvector!, partcollation oidvector!, partexprs text"),
    spec("pg_catalog", "pg_locks", 12_073, 'v', "\
        locktype text, database oid, relation oid, page int4, tuple int2, virtualxid text, \
        transactionid xid, classid oid, objid oid, objsubid int2, virtualtransaction text, pid \
        int4, mode text, granted bool, fastpath bool, waitstart timestamptz"),
    spec("pg_catalog", "pg_prepared_xacts", 12_090, 'v', "\
        transaction xid, gid text, prepared timestamptz, owner name, database name"),
    spec("pg_catalog", "pg_prepared_statements", 12_095, 'v', "\
        name text, statement text, prepare_time timestamptz, parameter_types _regtype, from_sql \
        bool, generic_plans int8, custom_plans int8"),
    spec("pg_catalog", "pg_cursors", 12_077, 'v', "\
        name text, statement text, is_holdable bool, is_binary bool, is_scrollable bool, \
        creation_time timestamptz"),
    spec("pg_catalog", "pg_stat_user_tables", 12_161, 'v', "\
        relid oid, schemaname name, relname name, seq_scan int8, seq_tup_read int8, idx_scan \
        int8, idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, n_tup_hot_upd \
        int8, n_live_tup int8, n_dead_tup int8, n_mod_since_analyze int8, n_ins_since_vacuum \
        int8, last_vacuum timestamptz, last_autovacuum timestamptz, last_analyze timestamptz, \
        last_autoanalyze timestamptz, vacuum_count int8, autovacuum_count int8, analyze_count \
        int8, autoanalyze_count int8"),
    spec("pg_catalog", "pg_default_acl", 826, 'r', "\
        oid oid!, defaclrole oid!, defaclnamespace oid!, defaclobjtype char!, defaclacl \
        _aclitem!"),
    spec("pg_catalog", "pg_conversion", 2607, 'r', "\
        oid oid!, conname name!, connamespace oid!, conowner oid!, conforencoding int4!, \
        contoencoding int4!, conproc regproc!, condefault bool!"),
    spec("pg_catalog", "pg_subscription", 6100, 'r', "\
        oid oid!, subdbid oid!, subskiplsn text!, subname name!, subowner oid!, subenabled \
        bool!, subbinary bool!, substream bool!, subtwophasestate char!, subdisableonerr bool!, \
        subconninfo text!, subslotname name, subsynccommit text!, subpublications _text!"),
    spec("pg_catalog", "pg_rules", 12_023, 'v', "\
        schemaname name, tablename name, rulename name, definition text"),
    spec("pg_catalog", "pg_seclabels", 12_099, 'v', "\
        objoid oid, classoid oid, objsubid int4, objtype text, objnamespace oid, objname text, \
        provider text, label text"),
    spec("pg_catalog", "pg_shseclabel", 3592, 'r', "\
        objoid oid!, classoid oid!, provider text!, label text!"),
    spec("pg_catalog", "pg_user_mappings", 12_263, 'v', "\
        umid oid, srvid oid, srvname name, umuser oid, usename name, umoptions _text"),
    spec("pg_catalog", "pg_seclabel", 3596, 'r', "\
        objoid oid!, classoid oid!, objsubid int4!, provider text!, label text!"),
    spec("pg_catalog", "pg_db_role_setting", 2964, 'r', "\
        setdatabase oid!, setrole oid!, setconfig _text"),
    spec("pg_catalog", "pg_ts_config", 3602, 'r', "\
        oid oid!, cfgname name!, cfgnamespace oid!, cfgowner oid!, cfgparser oid!"),
    spec("pg_catalog", "pg_ts_dict", 3600, 'r', "\
        oid oid!, dictname name!, dictnamespace oid!, dictowner oid!, dicttemplate oid!, \
        dictinitoption text"),
    spec("pg_catalog", "pg_ts_parser", 3601, 'r', "\
        oid oid!, prsname name!, prsnamespace oid!, prsstart regproc!, prstoken regproc!, prsend \
        regproc!, prsheadline regproc!, prslextype regproc!"),
    spec("pg_catalog", "pg_ts_template", 3764, 'r', "\
        oid oid!, tmplname name!, tmplnamespace oid!, tmplinit regproc!, tmpllexize regproc!"),
    spec("pg_catalog", "pg_largeobject_metadata", 2995, 'r', "\
        oid oid!, lomowner oid!, lomacl _aclitem"),
    spec("pg_catalog", "pg_parameter_acl", 6243, 'r', "\
        oid oid!, parname text!, paracl _aclitem"),
    spec("pg_catalog", "pg_opfamily", 2753, 'r', "\
        oid oid!, opfmethod oid!, opfname name!, opfnamespace oid!, opfowner oid!"),
    spec("pg_catalog", "pg_amop", 2602, 'r', "\
        oid oid!, amopfamily oid!, amoplefttype oid!, amoprighttype oid!, amopstrategy int2!, \
        amoppurpose char!, amopopr oid!, amopmethod oid!, amopsortfamily oid!"),
    spec("pg_catalog", "pg_amproc", 2603, 'r', "\
        oid oid!, amprocfamily oid!, amproclefttype oid!, amprocrighttype oid!, amprocnum int2!, \
        amproc regproc!"),
    spec("pg_catalog", "pg_transform", 3576, 'r', "\
        oid oid!, trftype oid!, trflang oid!, trffromsql regproc!, trftosql regproc!"),
    spec("pg_catalog", "pg_init_privs", 3394, 'r', "\
        objoid oid!, classoid oid!, objsubid int4!, privtype char!, initprivs _aclitem!"),
    spec("pg_catalog", "pg_stats", 12_053, 'v', "\
        schemaname name, tablename name, attname name, inherited bool, null_frac float4, \
        avg_width int4, n_distinct float4, most_common_vals text, most_common_freqs _float4, \
        histogram_bounds text, correlation float4, most_common_elems text, \
        most_common_elem_freqs _float4, elem_count_histogram _float4"),
    spec("pg_catalog", "pg_stat_all_tables", 12_142, 'v', "\
        relid oid, schemaname name, relname name, seq_scan int8, seq_tup_read int8, idx_scan \
        int8, idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, n_tup_hot_upd \
        int8, n_live_tup int8, n_dead_tup int8, n_mod_since_analyze int8, n_ins_since_vacuum \
        int8, last_vacuum timestamptz, last_autovacuum timestamptz, last_analyze timestamptz, \
        last_autoanalyze timestamptz, vacuum_count int8, autovacuum_count int8, analyze_count \
        int8, autoanalyze_count int8"),
    spec("pg_catalog", "pg_stat_database", 12_266, 'v', "\
        datid oid, datname name, numbackends int4, xact_commit int8, xact_rollback int8, \
        blks_read int8, blks_hit int8, tup_returned int8, tup_fetched int8, tup_inserted int8, \
        tup_updated int8, tup_deleted int8, conflicts int8, temp_files int8, temp_bytes int8, \
        deadlocks int8, checksum_failures int8, checksum_last_failure timestamptz, blk_read_time \
        float8, blk_write_time float8, session_time float8, active_time float8, \
        idle_in_transaction_time float8, sessions int8, sessions_abandoned int8, sessions_fatal \
        int8, sessions_killed int8, stats_reset timestamptz"),
    spec("pg_catalog", "pg_stat_user_indexes", 12_192, 'v', "\
        relid oid, indexrelid oid, schemaname name, relname name, indexrelname name, idx_scan \
        int8, idx_tup_read int8, idx_tup_fetch int8"),
    spec("pg_catalog", "pg_statio_user_tables", 12_179, 'v', "\
        relid oid, schemaname name, relname name, heap_blks_read int8, heap_blks_hit int8, \
        idx_blks_read int8, idx_blks_hit int8, toast_blks_read int8, toast_blks_hit int8, \
        tidx_blks_read int8, tidx_blks_hit int8"),
    spec("pg_catalog", "pg_statio_all_tables", 12_171, 'v', "\
        relid oid, schemaname name, relname name, heap_blks_read int8, heap_blks_hit int8, \
        idx_blks_read int8, idx_blks_hit int8, toast_blks_read int8, toast_blks_hit int8, \
        tidx_blks_read int8, tidx_blks_hit int8"),
    spec("pg_catalog", "pg_timezone_names", 12_126, 'v', "\
        name text, abbrev text, utc_offset interval, is_dst bool"),
    spec("pg_catalog", "pg_replication_slots", 12_257, 'v', "\
        slot_name name, plugin name, slot_type text, datoid oid, database name, temporary bool, \
        active bool, active_pid int4, xmin xid, catalog_xmin xid, restart_lsn text, \
        confirmed_flush_lsn text, wal_status text, safe_wal_size int8, two_phase bool"),
    spec("pg_catalog", "pg_stat_replication", 12_227, 'v', "\
        pid int4, usesysid oid, usename name, application_name text, client_addr text, \
        client_hostname text, client_port int4, backend_start timestamptz, backend_xmin xid, \
        state text, sent_lsn text, write_lsn text, flush_lsn text, replay_lsn text, write_lag \
        interval, flush_lag interval, replay_lag interval, sync_priority int4, sync_state text, \
        reply_time timestamptz"),
    spec("pg_catalog", "pg_available_extensions", 12_081, 'v', "\
        name name, default_version text, installed_version text, comment text"),
    spec("pg_catalog", "pg_available_extension_versions", 12_085, 'v', "\
        name name, version text, installed bool, superuser bool, trusted bool, relocatable bool, \
        schema name, requires _name, comment text"),
    spec("pg_catalog", "pg_publication_tables", 12_068, 'v', "\
        pubname name, schemaname name, tablename name, attnames _name, rowfilter text"),
    spec("pg_catalog", "pg_group", 12_010, 'v', "\
        groname name, grosysid oid, grolist _oid"),
    spec("pg_catalog", "pg_shadow", 12_005, 'v', "\
        usename name, usesysid oid, usecreatedb bool, usesuper bool, userepl bool, usebypassrls \
        bool, passwd text, valuntil timestamptz, useconfig _text"),
    spec("pg_catalog", "pg_subscription_rel", 6102, 'r', "\
        srsubid oid!, srrelid oid!, srsubstate char!, srsublsn text"),
    spec("pg_catalog", "pg_statistic_ext_data", 3429, 'r', "\
        stxoid oid!, stxdinherit bool!, stxdndistinct text, stxddependencies text, stxdmcv text, \
        stxdexpr text"),
    spec("pg_catalog", "pg_stats_ext", 12_058, 'v', "\
        schemaname name, tablename name, statistics_schemaname name, statistics_name name, \
        statistics_owner name, attnames _name, exprs _text, kinds _text, inherited bool, \
        n_distinct text, dependencies text, most_common_vals _text, most_common_val_nulls \
        _bool, most_common_freqs _float8, most_common_base_freqs _float8"),
    spec("pg_catalog", "pg_stat_ssl", 12_249, 'v', "\
        pid int4, ssl bool, version text, cipher text, bits int4, client_dn text, client_serial \
        numeric, issuer_dn text"),
    spec("information_schema", "tables", 13_425, 'v', "\
        table_catalog name, table_schema name, table_name name, table_type varchar, \
        self_referencing_column_name name, reference_generation varchar, \
        user_defined_type_catalog name, user_defined_type_schema name, user_defined_type_name \
        name, is_insertable_into varchar, is_typed varchar, commit_action varchar"),
    spec("information_schema", "columns", 13_295, 'v', "\
        table_catalog name, table_schema name, table_name name, column_name name, \
        ordinal_position int4, column_default varchar, is_nullable varchar, data_type varchar, \
        character_maximum_length int4, character_octet_length int4, numeric_precision int4, \
        numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, interval_type \
        varchar, interval_precision int4, character_set_catalog name, character_set_schema name, \
        character_set_name name, collation_catalog name, collation_schema name, collation_name \
        name, domain_catalog name, domain_schema name, domain_name name, udt_catalog name, \
        udt_schema name, udt_name name, scope_catalog name, scope_schema name, scope_name name, \
        maximum_cardinality int4, dtd_identifier name, is_self_referencing varchar, is_identity \
        varchar, identity_generation varchar, identity_start varchar, identity_increment \
        varchar, identity_maximum varchar, identity_minimum varchar, identity_cycle varchar, \
        is_generated varchar, generation_expression varchar, is_updatable varchar"),
    spec("information_schema", "table_constraints", 13_411, 'v', "\
        constraint_catalog name, constraint_schema name, constraint_name name, table_catalog \
        name, table_schema name, table_name name, constraint_type varchar, is_deferrable \
        varchar, initially_deferred varchar, enforced varchar, nulls_distinct varchar"),
    spec("information_schema", "key_column_usage", 13_329, 'v', "\
        constraint_catalog name, constraint_schema name, constraint_name name, table_catalog \
        name, table_schema name, table_name name, column_name name, ordinal_position int4, \
        position_in_unique_constraint int4"),
    spec("information_schema", "constraint_column_usage", 13_300, 'v', "\
        table_catalog name, table_schema name, table_name name, column_name name, \
        constraint_catalog name, constraint_schema name, constraint_name name"),
    spec("information_schema", "referential_constraints", 13_339, 'v', "\
        constraint_catalog name, constraint_schema name, constraint_name name, \
        unique_constraint_catalog name, unique_constraint_schema name, unique_constraint_name \
        name, match_option varchar, update_rule varchar, delete_rule varchar"),
    spec("information_schema", "schemata", 13_382, 'v', "\
        catalog_name name, schema_name name, schema_owner name, default_character_set_catalog \
        name, default_character_set_schema name, default_character_set_name name, sql_path \
        varchar"),
    spec("information_schema", "sequences", 13_386, 'v', "\
        sequence_catalog name, sequence_schema name, sequence_name name, data_type varchar, \
        numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, start_value \
        varchar, minimum_value varchar, maximum_value varchar, increment varchar, cycle_option \
        varchar"),
    spec("information_schema", "views", 13_483, 'v', "\
        table_catalog name, table_schema name, table_name name, view_definition varchar, \
        check_option varchar, is_updatable varchar, is_insertable_into varchar, \
        is_trigger_updatable varchar, is_trigger_deletable varchar, is_trigger_insertable_into \
        varchar"),
    spec("information_schema", "check_constraints", 13_260, 'v', "\
        constraint_catalog name, constraint_schema name, constraint_name name, check_clause \
        varchar"),
    spec("information_schema", "routines", 13_377, 'v', "\
        specific_catalog name, specific_schema name, specific_name name, routine_catalog name, \
        routine_schema name, routine_name name, routine_type varchar, module_catalog name, \
        module_schema name, module_name name, udt_catalog name, udt_schema name, udt_name name, \
        data_type varchar, character_maximum_length int4, character_octet_length int4, \
        character_set_catalog name, character_set_schema name, character_set_name name, \
        collation_catalog name, collation_schema name, collation_name name, numeric_precision \
        int4, numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, \
        interval_type varchar, interval_precision int4, type_udt_catalog name, type_udt_schema \
        name, type_udt_name name, scope_catalog name, scope_schema name, scope_name name, \
        maximum_cardinality int4, dtd_identifier name, routine_body varchar, routine_definition \
        varchar, external_name varchar, external_language varchar, parameter_style varchar, \
        is_deterministic varchar, sql_data_access varchar, is_null_call varchar, sql_path \
        varchar, schema_level_routine varchar, max_dynamic_result_sets int4, \
        is_user_defined_cast varchar, is_implicitly_invocable varchar, security_type varchar, \
        to_sql_specific_catalog name, to_sql_specific_schema name, to_sql_specific_name name, \
        as_locator varchar, created timestamptz, last_altered timestamptz, new_savepoint_level \
        varchar, is_udt_dependent varchar, result_cast_from_data_type varchar, \
        result_cast_as_locator varchar, result_cast_char_max_length int4, \
        result_cast_char_octet_length int4, result_cast_char_set_catalog name, \
        result_cast_char_set_schema name, result_cast_char_set_name name, \
        result_cast_collation_catalog name, result_cast_collation_schema name, \
        result_cast_collation_name name, result_cast_numeric_precision int4, \
        result_cast_numeric_precision_radix int4, result_cast_numeric_scale int4, \
        result_cast_datetime_precision int4, result_cast_interval_type varchar, \
        result_cast_interval_precision int4, result_cast_type_udt_catalog name, \
        result_cast_type_udt_schema name, result_cast_type_udt_name name, \
        result_cast_scope_catalog name, result_cast_scope_schema name, result_cast_scope_name \
        name, result_cast_maximum_cardinality int4, result_cast_dtd_identifier name"),
    spec("information_schema", "enabled_roles", 13_225, 'v', "role_name name"),
    spec("information_schema", "applicable_roles", 13_229, 'v', "\
        grantee name, role_name name, is_grantable varchar"),
    spec("information_schema", "table_privileges", 13_420, 'v', "\
        grantor name, grantee name, table_catalog name, table_schema name, table_name name, \
        privilege_type varchar, is_grantable varchar, with_hierarchy varchar"),
    spec("information_schema", "role_table_grants", 13_364, 'v', "\
        grantor name, grantee name, table_catalog name, table_schema name, table_name name, \
        privilege_type varchar, is_grantable varchar, with_hierarchy varchar"),
    spec("information_schema", "column_privileges", 13_290, 'v', "\
        grantor name, grantee name, table_catalog name, table_schema name, table_name name, \
        column_name name, privilege_type varchar, is_grantable varchar"),
    spec("information_schema", "role_column_grants", 13_360, 'v', "\
        grantor name, grantee name, table_catalog name, table_schema name, table_name name, \
        column_name name, privilege_type varchar, is_grantable varchar"),
    spec("information_schema", "usage_privileges", 13_470, 'v', "\
        grantor name, grantee name, object_catalog name, object_schema name, object_name name, \
        object_type varchar, privilege_type varchar, is_grantable varchar"),
    spec("information_schema", "role_usage_grants", 13_368, 'v', "\
        grantor name, grantee name, object_catalog name, object_schema name, object_name name, \
        object_type varchar, privilege_type varchar, is_grantable varchar"),
    spec("froglet", "blocks", 13_993, 'v', "\
        schema_name text, table_name text, hot int8, cooling int8, frozen int8, free_rows int8, \
        versions int8, bytes int8, dictionaries int8"),
    spec("froglet", "engines", 13_996, 'v', "\
        engine text, tables int8, rows int8, row_bytes int8, memory_bytes int8, unwritten_bytes int8, cache_bytes int8, \
        cache_limit_bytes int8, files int8, file_bytes int8, runs int8, versions int8, registry_entries int8, \
        cache_hits int8, cache_misses int8, put_bytes int8, written_bytes int8, requests int8, round_trips int8"),
    spec("froglet", "held_back", 13_994, 'v', "\
        pid int4, held_by text, statement text, since timestamptz, age_seconds float8, as_of int8, behind int8, \
        tables _text"),
    spec("froglet", "migrations", 13_990, 'v', "\
        id int8, txn int8, table_name text, kind text, statement text, phase text, blocks_done \
        int8, blocks int8, percent float8, rows_scanned int8, rows_on_access int8, rows_captured int8, backlog int8, \
        started timestamptz, ended timestamptz, error text, paused bool, rows_per_second int8, \
        kept_with text"),
    spec("froglet", "placement", 13_997, 'v', "\
        schema_name text, table_name text, method text, rows int8, row_bytes int8, memory_bytes int8, \
        recent_reads int8, recent_writes int8, share float8, last_access timestamptz, proposal text, \
        would_free_bytes int8, statement text"),
    spec("froglet", "regions", 13_998, 'v', "\
        schema_name text, table_name text, table_start text, table_end text, region int8, region_start text, \
        region_end text, leader int8, peers _int8, approximate_bytes int8, approximate_keys int8"),
    spec("froglet", "schema_changes", 13_992, 'v', "\
        id int8, migrations _int8, committed timestamptz, statements _text, reverts int8, reverted_by int8, \
        kept_columns int4, kept_until timestamptz"),
    spec("froglet", "unreadable", 13_995, 'v', "\
        id int8, kind text, schema_name text, name text, error text"),
    spec("froglet", "waits", 13_991, 'v', "\
        pid int4, statement text, waits_for int4, holder_state text, holder_statement text"),
];
