//! One client, one statement at a time.

use crate::support::{Client, database};

#[tokio::test]
async fn create_insert_select_update_delete() {
    let db = database().await;
    let mut c = Client::connect(&db);
    assert_eq!(
        c.ok("create table t (id int primary key, name text, n bigint default 7)").await,
        "CREATE TABLE"
    );
    assert_eq!(
        c.ok("insert into t (id, name) values (1, 'a'), (2, 'b'), (3, null)").await,
        "INSERT 0 3"
    );
    assert_eq!(c.lines("select id, name, n from t where id = 2").await, ["2|b|7"]);
    assert_eq!(c.ok("update t set n = n + 1, name = 'z' where id = 2").await, "UPDATE 1");
    assert_eq!(c.lines("select * from t where id >= 2 order by id desc").await, ["3|∅|7", "2|z|8"]);
    assert_eq!(c.ok("delete from t where id < 3").await, "DELETE 2");
    assert_eq!(c.lines("select id from t where id > 0").await, ["3"]);
}
