/*
 * Words are plain strings. These characters, which Unicode leaves unassigned, stand for parts that the command's text
 * does not show. A command that contains these characters itself is only judged more strictly.
 */

/** The value of a variable that the command does not set. */
export const unknown = '\uFFF0'
/** The output of a command substitution. */
export const output = '\uFFF1'
/** `*` and single-character patterns (`?`, `[ab]`), where the shell would look for files. */
export const star = '\uFFF2'
export const one = '\uFFF3'

/** Whether a part of the word is only known when the command runs. */
export const isDynamic = (word: string): boolean => word.includes(unknown) || word.includes(output)

/** Whether the word is completely known. */
export const isPlain = (word: string): boolean => !/[\uFFF0-\uFFF3]/.test(word)

/** Whether nothing of the word is known before the command runs. */
export const isUnknown = (word: string): boolean => isDynamic(word) && withoutUnknowns(word).trim() === ''

export const withoutUnknowns = (word: string): string => word.replaceAll(/[\uFFF0\uFFF1]/g, '')

/** Converts marked text back to shell code. Unknown parts become a variable that is never set. */
export const asCode = (word: string): string =>
  word
    .replaceAll(/[\uFFF0\uFFF1]/g, '${_}')
    .replaceAll(star, '*')
    .replaceAll(one, '?')
