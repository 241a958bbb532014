//! The list that a function makes, nobody knows how long.

use super::simple::Out;
use crate::context::SessionFunctions;
use crate::error::SqlError;
use crate::query::account::Room;

/// Items, on the account while there are more of them; whoever adds one hears of the statement's end.
pub(super) struct Items<'s> {
    items: Vec<Out>,
    session: &'s dyn SessionFunctions,
    room: Room<'s>,
}

impl<'s> Items<'s> {
    pub(super) fn new(session: &'s dyn SessionFunctions) -> Items<'s> {
        Items { items: Vec::new(), session, room: Room::new(session) }
    }

    /// All of them.
    pub(super) fn of(
        session: &'s dyn SessionFunctions,
        items: impl Iterator<Item = Out>,
    ) -> Result<Out, SqlError> {
        let mut list = Items::new(session);
        for item in items {
            list.push(item)?;
        }
        Ok(list.list())
    }

    pub(super) fn push(&mut self, item: Out) -> Result<(), SqlError> {
        if self.items.len() == self.items.capacity() {
            self.make_room()?;
        }
        self.room.grow(item.bytes())?;
        self.items.push(item);
        Ok(())
    }

    /// For twice as many. They are there twice while they move.
    fn make_room(&mut self) -> Result<(), SqlError> {
        let more = self.items.len().max(16);
        let mut moving = Room::new(self.session);
        moving.grow(self.items.len() * size_of::<Out>())?;
        self.room.grow(more * size_of::<Out>())?;
        self.items.reserve_exact(more);
        Ok(())
    }

    pub(super) fn list(self) -> Out {
        Out::List(self.items)
    }
}
