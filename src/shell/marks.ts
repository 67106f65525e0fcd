/*
 * The words of a command are strings. The characters below stand for parts that the text of the command does not show.
 * Unicode assigns no meaning to these characters. A command that contains such a character itself may be judged more
 * strictly, but never less strictly.
 */

/** Stands for the value of a variable that the command does not set. */
export const unknown = '\uFFF0'
/** Stands for the output of a command substitution. */
export const output = '\uFFF1'
/** Stands for the pattern `*`. The shell replaces this pattern with the names of matching files. */
export const star = '\uFFF2'
/** Stands for a pattern that matches one character: `?` or `[ab]`. */
export const one = '\uFFF3'

/** Whether a part of the word is only known when the command runs. */
export const isDynamic = (word: string): boolean => word.includes(unknown) || word.includes(output)

/** Whether the whole word is known. */
export const isPlain = (word: string): boolean => !/[\uFFF0-\uFFF3]/.test(word)

/** True if the whole word is unknown before the command runs. */
export const isUnknown = (word: string): boolean => isDynamic(word) && withoutUnknowns(word).trim() === ''

export const withoutUnknowns = (word: string): string => word.replaceAll(/[\uFFF0\uFFF1]/g, '')

/** Converts marked text back to shell code. Unknown parts become a variable that is never set. */
export const asCode = (word: string): string =>
  word
    .replaceAll(/[\uFFF0\uFFF1]/g, '${_}')
    .replaceAll(star, '*')
    .replaceAll(one, '?')
