/**
 * Entries and decisions are inserted under the chain lock. This migration makes the inserts cheaper, with the same
 * guarantees (docs/performance.md#turns-and-cheaper-appends):
 *
 * - `hash` is checked without a regular expression.
 * - `organization_id` and `seq` are read with `json`, because `json` finds a field without building the whole value.
 *   `event_type` is still read with `jsonb`, because `jsonb` refuses an entry that could not be listed later.
 * - A decision has no foreign key to its organization. The writer of a decision has locked the organization's row of
 *   `chain_head`, and this row has such a foreign key.
 */
export const cheaperAppends = `
alter table audit_events
  drop constraint audit_events_hash_check,
  add constraint audit_events_hash_check check (length(hash) = 64 and encode(decode(hash, 'hex'), 'hex') = hash),
  alter column organization_id set expression as (canonical::json ->> 'organization_id'),
  alter column seq set expression as ((canonical::json ->> 'seq')::bigint);
alter table decisions drop constraint decisions_organization_id_fkey;
`
