// Marks, and the two half-width signs that become marks.
const manyMarks = /[\p{M}\uff9e\uff9f]{30}(?=[\p{M}\uff9e\uff9f])/gu

/**
 * A text in a Unicode normalization form, in linear time. Putting the marks of one letter in order takes the square of
 * their number, minutes for megabytes of them: so every thirty get a sign between them that shows nothing, as Unicode's
 * Stream-Safe Text Format has it (UAX 15). No text that anybody writes has so many.
 */
export function normalized(text: string, form: 'NFC' | 'NFKC'): string {
  return text.replace(manyMarks, '$&\u034f').normalize(form)
}
