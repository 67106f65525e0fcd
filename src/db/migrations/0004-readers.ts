/** The groups that see the values of a run, as they were when it was accepted: a later group of the same name is another. */
export const readers = `
alter table runs add column readers text[] not null default '{}';
`
