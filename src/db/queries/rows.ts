/**
 * Returns the rows as JSON text for `json_to_recordset`. Each row gets a number in the field `n`: 1, 2, 3 and so on.
 */
export const numbered = (rows: readonly object[]): string =>
  JSON.stringify(rows.map((row, index) => ({ ...row, n: index + 1 })))
