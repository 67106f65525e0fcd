/**
 * Makes inserting entries and decisions under the chain lock cheaper, with the same guarantees
 * (docs/performance.md#turns-and-cheaper-appends):
 *
 * - `hash` is checked without a regular expression.
 * - `organization_id` and `seq` are read with `json`, which finds a field without building the whole value.
 *   `event_type` is still read with `jsonb`, because `jsonb` refuses an entry that could not be listed later.
 * - A decision needs no foreign key to its organization, because its writer has locked the row of `chain_head`, and
 *   that row has such a foreign key.
 */
export const cheaperAppends = `
alter table audit_events
  drop constraint audit_events_hash_check,
  add constraint audit_events_hash_check check (length(hash) = 64 and encode(decode(hash, 'hex'), 'hex') = hash),
  alter column organization_id set expression as (canonical::json ->> 'organization_id'),
  alter column seq set expression as ((canonical::json ->> 'seq')::bigint);
alter table decisions drop constraint decisions_organization_id_fkey;
`
