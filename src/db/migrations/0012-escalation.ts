/** Reminders, and people who are asked later or in place of others. */
export const escalation = `
-- When those who have not voted are reminded. Null: never.
alter table approvals add column remind_at timestamptz;

-- The absent person by whose right the voter decided. Null: by their own.
alter table approval_votes add column for_user text references users;

-- Null: at once.
alter table notices add column due_at timestamptz;
alter table notices drop constraint notices_kind_check;
alter table notices add constraint notices_kind_check check (kind in ('approval', 'call', 'run', 'absence'));
create index notices_due on notices (due_at) where due_at is not null;

create table absences (
  organization_id text not null,
  user_id text not null,
  deputy text not null,
  from_at timestamptz not null,
  until_at timestamptz not null,
  set_at timestamptz not null,
  primary key (organization_id, user_id),
  foreign key (organization_id, user_id) references memberships (organization_id, user_id) on delete cascade,
  foreign key (organization_id, deputy) references memberships (organization_id, user_id) on delete cascade,
  check (from_at < until_at),
  check (deputy <> user_id)
);
create index absences_of_deputy on absences (organization_id, deputy);
comment on table absences is 'Who is away, and who decides in their place. Goes with the membership of either.';
`
