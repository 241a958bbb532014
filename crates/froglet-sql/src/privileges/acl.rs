//! Lists of grants: what they begin with, what GRANT and REVOKE make of them, and how they are printed.

use froglet_engine::SqlState;
use froglet_schema::access::{AccessDef, EVERYBODY, Grant, PG_NAMESPACE};
use froglet_schema::plain::PUBLIC_ID;
use froglet_schema::{CatalogVersion, ObjectId};

use super::{Kind, PRIVILEGES, bits};
use crate::error::SqlError;
use crate::pgcatalog::cluster::role_name;

/// System catalogs that not everybody may read.
const PRIVATE: [&str; 9] = [
    "pg_authid",
    "pg_shadow",
    "pg_statistic",
    "pg_largeobject",
    "pg_user_mapping",
    "pg_subscription",
    "pg_hba_file_rules",
    "pg_file_settings",
    "pg_statistic_ext_data",
];

/// Whether everybody may read a system catalog.
pub(crate) fn may_system(relation: ObjectId) -> bool {
    let name = crate::pgcatalog::system_relation_name(relation);
    !name.is_some_and(|(schema, name)| schema == "pg_catalog" && PRIVATE.contains(&name))
}

/// What goes without saying.
pub(crate) fn default_of(kind: Kind, owner: ObjectId) -> Vec<Grant> {
    let given = [(EVERYBODY, kind.of_everybody()), (owner, kind.all())];
    let grants =
        given.into_iter().filter(|(_, privileges)| *privileges != 0 && kind != Kind::Column);
    let grant = |(grantee, privileges)| Grant { grantee, grantor: owner, privileges, options: 0 };
    grants.map(grant).collect()
}

/// What is granted on an object, be it said or not.
pub(crate) fn effective(kind: Kind, access: &AccessDef) -> Vec<Grant> {
    said(access).unwrap_or_else(|| default_of(kind, access.owner))
}

/// What is said of grants: of schema public something is from the beginning.
pub(crate) fn said(access: &AccessDef) -> Option<Vec<Grant>> {
    let public = || {
        let mut grants = default_of(Kind::Schema, access.owner);
        let (grantor, privileges) = (access.owner, bits::USAGE);
        grants.push(Grant { grantee: EVERYBODY, grantor, privileges, options: 0 });
        grants
    };
    let is_public = (access.class, access.object) == (PG_NAMESPACE, PUBLIC_ID);
    access.grants.clone().or_else(|| is_public.then(public))
}

/// What GRANT and REVOKE do to one list of grants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    pub(crate) is_grant: bool,
    /// WITH GRANT OPTION; of REVOKE: GRANT OPTION FOR.
    pub(crate) option: bool,
    pub(crate) cascade: bool,
    pub(crate) grantor: ObjectId,
    pub(crate) owner: ObjectId,
}

impl Change {
    /// Makes it, for one grantee.
    pub(crate) fn make(
        &self,
        grants: &mut Vec<Grant>,
        grantee: ObjectId,
        privileges: u16,
    ) -> Result<(), SqlError> {
        if self.is_grant {
            self.grant(grants, grantee, privileges)
        } else {
            self.revoke(grants, grantee, privileges)
        }
    }

    fn grant(
        &self,
        grants: &mut Vec<Grant>,
        grantee: ObjectId,
        privileges: u16,
    ) -> Result<(), SqlError> {
        let wrong = |message: &str| SqlError::new(SqlState::INVALID_GRANT_OPERATION, message);
        if self.option && grantee == EVERYBODY {
            return Err(wrong("grant options can only be granted to roles"));
        }
        if self.option && self.would_circle(grants, grantee, privileges) {
            return Err(wrong("grant options cannot be granted back to your own grantor"));
        }
        let grantor = self.grantor;
        let mine = |g: &&mut Grant| (g.grantee, g.grantor) == (grantee, grantor);
        let options = if self.option { privileges } else { 0 };
        match grants.iter_mut().find(mine) {
            Some(known) => {
                known.privileges |= privileges;
                known.options |= options;
            }
            None => grants.push(Grant { grantee, grantor, privileges, options }),
        }
        Ok(())
    }

    /// Whether the grantor has its own option from the grantee alone.
    fn would_circle(&self, grants: &[Grant], grantee: ObjectId, privileges: u16) -> bool {
        if self.grantor == self.owner {
            return false;
        }
        let mut without = grants.to_vec();
        let all = Change { is_grant: false, option: false, cascade: true, ..*self };
        let by: Vec<ObjectId> = without
            .iter()
            .filter(|g| g.grantee == grantee && g.options != 0)
            .map(|g| g.grantor)
            .collect();
        for grantor in by {
            let _ = Change { grantor, ..all }.revoke(&mut without, grantee, u16::MAX);
        }
        let left = without.iter().filter(|g| g.grantee == self.grantor);
        let left = left.fold(0, |all, grant| all | grant.options);
        privileges & !left != 0
    }

    fn revoke(
        &self,
        grants: &mut Vec<Grant>,
        grantee: ObjectId,
        privileges: u16,
    ) -> Result<(), SqlError> {
        let mine = |g: &Grant| (g.grantee, g.grantor) == (grantee, self.grantor);
        let Some(at) = grants.iter().position(mine) else { return Ok(()) };
        let lost = grants[at].options & privileges;
        grants[at].options &= !privileges;
        if !self.option {
            grants[at].privileges &= !privileges;
        }
        if grants[at].privileges == 0 {
            grants.remove(at);
        }
        self.revoke_dependent(grants, grantee, lost)
    }

    /// What somebody has granted who may not grant it any more goes, too.
    fn revoke_dependent(
        &self,
        grants: &mut Vec<Grant>,
        from: ObjectId,
        lost: u16,
    ) -> Result<(), SqlError> {
        if lost == 0 || from == self.owner {
            return Ok(());
        }
        let still = grants.iter().filter(|g| g.grantee == from);
        let gone = lost & !still.fold(0, |all, grant| all | grant.options);
        while let Some(next) =
            grants.iter().find(|g| g.grantor == from && g.privileges & gone != 0).copied()
        {
            if !self.cascade {
                return Err(SqlError::new(
                    SqlState::DEPENDENT_OBJECTS_STILL_EXIST,
                    "dependent privileges exist",
                )
                .hint("Use CASCADE to revoke them too."));
            }
            let change = Change { option: false, grantor: from, ..*self };
            change.revoke(grants, next.grantee, gone)?;
        }
        Ok(())
    }
}

/// The grants of an object that gets another owner: his become the new one's.
pub(crate) fn with_owner(grants: &[Grant], from: ObjectId, to: ObjectId) -> Vec<Grant> {
    let now = |role| if role == from { to } else { role };
    let mut all: Vec<Grant> = Vec::new();
    for grant in grants {
        let grant = Grant { grantee: now(grant.grantee), grantor: now(grant.grantor), ..*grant };
        match all.iter_mut().find(|g| (g.grantee, g.grantor) == (grant.grantee, grant.grantor)) {
            Some(known) => {
                known.privileges |= grant.privileges;
                known.options |= grant.options;
            }
            None => all.push(grant),
        }
    }
    all
}

/// A role's name, as it is printed in a grant.
fn shown(catalog: &CatalogVersion, role: ObjectId) -> String {
    let name = role_name(catalog, role).unwrap_or_else(|| role.to_string());
    match name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        true => name,
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// A grant as PostgreSQL prints it: `anna=r*w/postgres`.
pub(crate) fn printed(catalog: &CatalogVersion, grant: &Grant) -> String {
    let mut text = String::new();
    if grant.grantee != EVERYBODY {
        text.push_str(&shown(catalog, grant.grantee));
    }
    text.push('=');
    for (_, letter, bit) in PRIVILEGES {
        if grant.privileges & bit != 0 {
            text.push(letter);
        }
        if grant.options & bit != 0 {
            text.push('*');
        }
    }
    text.push('/');
    text.push_str(&shown(catalog, grant.grantor));
    text
}

/// The same of all, where something is said.
pub(crate) fn all_printed(
    catalog: &CatalogVersion,
    grants: Option<&[Grant]>,
) -> Option<Vec<String>> {
    Some(grants?.iter().map(|grant| printed(catalog, grant)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: ObjectId = 10;

    fn change(is_grant: bool, option: bool, grantor: ObjectId) -> Change {
        Change { is_grant, option, cascade: false, grantor, owner: OWNER }
    }

    #[test]
    fn what_depends_on_a_grant_option_goes_with_it() {
        let mut grants = default_of(Kind::Table, OWNER);
        change(true, true, OWNER).make(&mut grants, 20, bits::SELECT).unwrap();
        change(true, true, 20).make(&mut grants, 30, bits::SELECT).unwrap();
        change(true, false, 30).make(&mut grants, EVERYBODY, bits::SELECT).unwrap();
        let refused = change(false, false, OWNER).make(&mut grants.clone(), 20, bits::SELECT);
        assert_eq!(refused.unwrap_err().message, "dependent privileges exist");
        let back = change(true, true, 30).make(&mut grants.clone(), 20, bits::SELECT);
        assert_eq!(back.unwrap_err().state, SqlState::INVALID_GRANT_OPERATION);
        let cascade = Change { cascade: true, ..change(false, false, OWNER) };
        cascade.make(&mut grants, 20, bits::SELECT).unwrap();
        assert_eq!(grants, default_of(Kind::Table, OWNER));
    }

    #[test]
    fn an_owners_grants_are_the_next_ones() {
        let mut grants = default_of(Kind::Table, OWNER);
        change(true, false, OWNER).make(&mut grants, 20, bits::SELECT).unwrap();
        let grants = with_owner(&grants, OWNER, 20);
        assert_eq!(grants, default_of(Kind::Table, 20));
    }
}
