//! Rules as clients and operators meet them.
