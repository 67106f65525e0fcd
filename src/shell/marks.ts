/*
 * Words are plain strings in which these characters, which Unicode leaves unassigned, stand for what the text of the
 * command does not show. A command that has them itself is read as if it hid something, which only makes it stricter.
 */

/** The value of a variable that the command does not set. */
export const unknown = '\uFFF0'
/** What a command substitution prints. */
export const output = '\uFFF1'
/** `*`, and a pattern's single character (`?`, `[ab]`), where the shell would look for files. */
export const star = '\uFFF2'
export const one = '\uFFF3'

/** Whether a part of the word is only known when the command runs. */
export const isDynamic = (word: string): boolean => word.includes(unknown) || word.includes(output)

/** Whether the word is exactly what the command says. */
export const isPlain = (word: string): boolean => !/[\uFFF0-\uFFF3]/.test(word)

/** Whether nothing of the word is known before the command runs. */
export const isUnknown = (word: string): boolean => isDynamic(word) && withoutUnknowns(word).trim() === ''

export const withoutUnknowns = (word: string): string => word.replaceAll(/[\uFFF0\uFFF1]/g, '')

/** A marked text as shell code again: what is not known is a variable nobody sets. */
export const asCode = (word: string): string =>
  word
    .replaceAll(/[\uFFF0\uFFF1]/g, '${_}')
    .replaceAll(star, '*')
    .replaceAll(one, '?')
