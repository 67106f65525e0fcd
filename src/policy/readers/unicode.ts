// Finds thirty combining marks that are followed by one more. Two half-width characters count too, because NFKC turns
// them into marks.
const manyMarks = /[\p{M}\uff9e\uff9f]{30}(?=[\p{M}\uff9e\uff9f])/gu

/**
 * Returns a text in a Unicode normalization form, in linear time. Sorting the marks of one letter takes quadratic time,
 * and minutes for megabytes. So an invisible character is put after every thirty marks, as in Unicode's Stream-Safe
 * Text Format (UAX 15). No real text has so many marks in a row.
 */
export function normalized(text: string, form: 'NFC' | 'NFKC'): string {
  return text.replace(manyMarks, '$&\u034f').normalize(form)
}
