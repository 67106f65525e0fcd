declare const sql: <Row>(parts: TemplateStringsArray, ...values: unknown[]) => { execute(): Row }
declare const client: { query(text: string): void }
const id = 'a'
const type = 'b'

/** Six lines, reported. */
export const long = sql<unknown>`
  select id
  from runs
  where id = ${id}
    and finished_at is null
  order by id
  limit 1`

/** Six lines without the tag, reported. */
client.query(`
  update runs
  set status = 'failed'
  where id = 'a'

    and status = 'running'
    and finished_at is null
  returning id`)

/** Five lines. */
sql<unknown>`
  select id
  from runs
  where id = ${id}
  order by id
  limit 1`.execute()

/** No SQL. */
export const text = `
  one
  two
  three
  four
  five
  ${type}`
