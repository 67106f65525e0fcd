import type pg from 'pg'

/**
 * Returns the forms in which a database or a log can contain a text: the text itself, its bytes in hex, and three forms
 * in base64. Base64 encodes groups of three bytes, and the text can begin at each position in a group.
 */
export function formsOf(text: string): string[] {
  const base64 = ['', 'x', 'xx'].map((before) => {
    const encoded = Buffer.from(before + text).toString('base64')
    // The first and last characters depend on the bytes next to the text, so they are cut off.
    return encoded.slice(before === '' ? 0 : 4, -4)
  })
  return [text, Buffer.from(text).toString('hex'), ...base64]
}

/**
 * Returns every column of the database that contains one of these texts in a form of `formsOf`. Writes a column as
 * `table.column`. The list of columns comes from the database itself, so new columns are checked too. Needs the
 * connection of a superuser.
 */
export async function columnsHolding(client: pg.Client, texts: readonly string[]): Promise<string[]> {
  const patterns = texts.flatMap(formsOf).map((form) => `%${form.replace(/[\\%_]/g, '\\$&')}%`)
  const { rows: tables } = await client.query<{ name: string }>(
    `select table_name as name from information_schema.tables
     where table_schema = 'public' and table_type = 'BASE TABLE' order by 1`,
  )
  const found: string[] = []
  for (const { name } of tables) {
    const { rows } = await client.query<{ key: string }>(
      `select distinct v.key from ${client.escapeIdentifier(name)} t, jsonb_each_text(to_jsonb(t)) v
       where v.value like any($1::text[]) order by 1`,
      [patterns],
    )
    found.push(...rows.map(({ key }) => `${name}.${key}`))
  }
  return found
}
