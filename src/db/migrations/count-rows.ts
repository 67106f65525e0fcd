/**
 * Describes a table whose rows count towards `storage_mb`. Migrations are made from these objects, so do not change one
 * that was released. To count a table differently, make a new object in a new migration, and call `countRows` and
 * `recountFunction` with it.
 */
export interface CountedTable {
  readonly name: string
  /** A SQL expression for the bytes of the row `t`. */
  readonly bytes: string
  /** A SQL expression that is 1 if the row `t` is a pending approval, else 0. The default is 0. */
  readonly pending?: string
  /**
   * A SQL join with a table `o` that has the column `organization_id`. It is needed if the table itself lacks this
   * column.
   */
  readonly join?: string
  /**
   * A SQL join with a table `o` that has an index on `organization_id`. It is needed if the table itself has this
   * column, but has no index that finds all rows of an organization. Only `recountOf` uses this join. Example:
   * `effects` joins `runs`.
   */
  readonly ofOrganization?: string
}

/**
 * Returns the SQL of triggers that count the inserted, updated and deleted rows of a table. A trigger runs once for
 * each statement.
 */
export function countRows({ name, bytes, pending = '0', join = '' }: CountedTable): string {
  const organization = join === '' ? 't.organization_id' : 'o.organization_id'
  const rows = (table: string, sign: '' | '-'): string =>
    `select ${organization} as organization, ${sign}(${bytes})::bigint as bytes, ${sign}(${pending}) as pending
       from ${table} t ${join}`
  const move = (from: string): string => `
    perform storage_moved(m.organization, sum(m.bytes)::bigint, sum(m.pending)::bigint)
      from (${from}) as m group by m.organization;`
  return `
create or replace function count_${name}() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then ${move(rows('added', ''))}
  elsif tg_op = 'DELETE' then ${move(rows('removed', '-'))}
  else ${move(`${rows('added', '')} union all ${rows('removed', '-')}`)}
  end if;
  return null;
end $$;
create or replace trigger ${name}_added after insert on ${name}
  referencing new table as added for each statement execute function count_${name}();
create or replace trigger ${name}_moved after update on ${name}
  referencing old table as removed new table as added for each statement execute function count_${name}();
create or replace trigger ${name}_removed after delete on ${name}
  referencing old table as removed for each statement execute function count_${name}();`
}

/** Returns a query that adds up the bytes and the pending approvals of the rows of `organization`. */
function recountOf(table: CountedTable): string {
  const { name, bytes, pending = '0', join = '', ofOrganization = join } = table
  const owner = ofOrganization === '' ? 't' : 'o'
  return `  select coalesce(sum(${bytes}), 0), coalesce(sum(${pending}), 0)
    from ${name} t ${ofOrganization} where ${owner}.organization_id = organization`
}

/**
 * Returns the SQL that defines the function `recount_storage`.
 *
 * The first three tables have no trigger. Their rows are inserted many times a second. So the transaction that inserts
 * rows also counts them, in an update of `chain_head` that it makes anyway. The bytes of a decision include what is
 * stored later about its call.
 */
export function recountFunction(tables: readonly CountedTable[]): string {
  return `create or replace function recount_storage(organization text, out bytes bigint, out pending bigint)
language sql stable as $$
  select sum(s.bytes)::bigint, sum(s.pending)::bigint from (
  select coalesce(sum(octet_length(canonical) + 192), 0) as bytes, 0 as pending
    from audit_events where organization_id = organization
  union all
  select coalesce(sum(d.bytes), 0), 0
    from decisions d where d.run_id in (select id from runs where organization_id = organization
                                        union all
                                        select run_id from agent_sessions where organization_id = organization)
  union all
  select coalesce(sum(2048 + label_bytes), 0), 0 from agent_sessions where organization_id = organization
  union all
${tables.map(recountOf).join('\n  union all\n')}
  ) as s
$$;`
}
