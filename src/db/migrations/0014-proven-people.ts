/**
 * What a proof of the address ends is audited like all that happens to accounts. Calls about the caller alone belong to no
 * organization (src/api/idempotent.ts).
 */
export const provenPeople = `
alter table account_events add column api_key_id text;
alter table idempotency_keys drop constraint idempotency_keys_organization_id_fkey;
-- Devices that skipped the second factor: they are not offered any more.
delete from auth_verifications where identifier like 'trust-device-%';
`
