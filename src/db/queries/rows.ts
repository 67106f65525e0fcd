import { sql } from 'kysely'

/** JSON text for `json_to_recordset`. Each row gets a number in the field `n`, from 1. */
export const numbered = (rows: readonly object[]): string =>
  JSON.stringify(rows.map((row, index) => ({ ...row, n: index + 1 })))

/** SQL for the columns of a record `r`, from their names and types: `id text, attempt int`. */
export function columnsOf(typed: string) {
  const names = typed.split(',').map((each) => each.trim().split(' ', 1)[0] ?? '')
  return {
    typed: sql.raw(typed),
    names: sql.raw(names.join(', ')),
    values: sql.raw(names.map((name) => `r.${name}`).join(', ')),
    excluded: sql.raw(names.map((name) => `${name} = excluded.${name}`).join(', ')),
    changes: sql.raw(names.map((name) => `${name} = r.${name}`).join(', ')),
  }
}
