/** As JSON text for `json_to_recordset`, numbered from 1 in the field `n`. */
export const numbered = (rows: readonly object[]): string =>
  JSON.stringify(rows.map((row, index) => ({ ...row, n: index + 1 })))
