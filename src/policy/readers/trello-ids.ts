/**
 * A long id, or the short id that links have. Upper and lower case differ in a short id. The long and the short id of
 * one card count as different cards here, because only Trello knows that both belong to the same card.
 */
const id = /^(?:[\da-f]{24}|[\dA-Za-z]{8})$/
const cardLink = /^https:\/\/(?:www\.)?trello\.com\/c\/([\dA-Za-z]{8})(?:[/?#][!-~]*)?$/
const boardLink = /^https:\/\/(?:www\.)?trello\.com\/b\/([\dA-Za-z]{8})(?:[/?#][!-~]*)?$/

const idIn = (text: string, link: RegExp): string | null => {
  const found = link.exec(text)?.[1] ?? text
  return id.test(found) ? found : null
}

/**
 * Returns the id of a card. The text is the id itself, or `https://trello.com/c/<id>/…`. Returns null for every other
 * text.
 */
export const cardIdOf = (text: string): string | null => idIn(text, cardLink)

/**
 * Returns the id of a board. The text is the id itself, or `https://trello.com/b/<id>/…`. Returns null for every other
 * text.
 */
export const boardIdOf = (text: string): string | null => idIn(text, boardLink)

/**
 * Reads a text that has only a part of an id, such as the value of `startswith` in a rule. Returns this part: `AbC` for
 * `https://trello.com/c/AbC`. A link may also begin with `https://www.trello.com/`.
 */
export const partOfId = (text: string): string =>
  text.replace(/^https:\/\/(?:www\.)?trello\.com\/[bc]\/(?=.)/, '')
