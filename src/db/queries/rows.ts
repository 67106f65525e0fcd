/** Returns the rows as JSON text for `json_to_recordset`. The field `n` numbers the rows from 1. */
export const numbered = (rows: readonly object[]): string =>
  JSON.stringify(rows.map((row, index) => ({ ...row, n: index + 1 })))
