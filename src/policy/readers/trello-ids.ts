/** Long, or short as in links, where case counts. Only Trello knows which two are the same card. */
const id = /^(?:[\da-f]{24}|[\dA-Za-z]{8})$/
const cardLink = /^https:\/\/(?:www\.)?trello\.com\/c\/([\dA-Za-z]{8})(?:[/?#][!-~]*)?$/
const boardLink = /^https:\/\/(?:www\.)?trello\.com\/b\/([\dA-Za-z]{8})(?:[/?#][!-~]*)?$/

const idIn = (text: string, link: RegExp): string | null => {
  const found = link.exec(text)?.[1] ?? text
  return id.test(found) ? found : null
}

/** The id itself, or that in `https://trello.com/c/<id>/…`. */
export const cardIdOf = (text: string): string | null => idIn(text, cardLink)

/** The id itself, or that in `https://trello.com/b/<id>/…`. */
export const boardIdOf = (text: string): string | null => idIn(text, boardLink)

/** A part of an id, as in `startswith`: `AbC` for `https://trello.com/c/AbC`. */
export const partOfId = (text: string): string =>
  text.replace(/^https:\/\/(?:www\.)?trello\.com\/[bc]\/(?=.)/, '')
