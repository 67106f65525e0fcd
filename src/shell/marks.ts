/*
 * The words of a command are strings. The characters below stand for parts that the text of the command does not show;
 * Unicode leaves them unassigned. If a command itself contains such a character, the command may be judged more
 * strictly, and never less strictly.
 */

/** Stands for the value of a variable that the command does not set. */
export const unknown = '\uFFF0'
/** Stands for the output of a command substitution. */
export const output = '\uFFF1'
/** Stands for the pattern `*`, in whose place the shell puts the names of matching files. */
export const star = '\uFFF2'
/** Stands for a pattern that matches one character: `?` or `[ab]`. */
export const one = '\uFFF3'

/** Whether a part of the word is only known when the command runs. */
export const isDynamic = (word: string): boolean => word.includes(unknown) || word.includes(output)

/** Whether the whole word is known. */
export const isPlain = (word: string): boolean => !/[\uFFF0-\uFFF3]/.test(word)

/** Whether no part of the word is known before the command runs. */
export const isUnknown = (word: string): boolean => isDynamic(word) && withoutUnknowns(word).trim() === ''

export const withoutUnknowns = (word: string): string => word.replaceAll(/[\uFFF0\uFFF1]/g, '')

/** Converts marked text back to shell code. Unknown parts become a variable that is never set. */
export const asCode = (word: string): string =>
  word
    .replaceAll(/[\uFFF0\uFFF1]/g, '${_}')
    .replaceAll(star, '*')
    .replaceAll(one, '?')
