/** Stores when the data of an ended run was removed. */
export const retention = `
alter table runs add column data_removed_at timestamptz;
create index runs_with_old_data on runs (finished_at) where data_removed_at is null and finished_at is not null;
`
