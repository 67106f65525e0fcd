import { getDocumentProxy } from 'unpdf'
import { DocumentRefused, maxDocumentSize } from './document.ts'

/* Only in the parser process. */

export const mostPages = 5_000

/** With an empty line between pages, and without those that have no text. */
export async function textOfPdf(bytes: Uint8Array): Promise<string> {
  const pdf = await open(bytes)
  if (pdf.numPages > mostPages)
    throw new DocumentRefused(`the PDF has more than ${mostPages} pages: split it`)
  const pages: string[] = []
  let length = 0
  for (let number = 1; number <= pdf.numPages; number += 1) {
    const page = await pdf.getPage(number)
    const { items } = await page.getTextContent()
    const text = items
      .map((item) => ('str' in item ? `${item.str}${item.hasEOL ? '\n' : ''}` : ''))
      .join('')
      .trim()
    page.cleanup()
    length += text.length
    if (length > maxDocumentSize) throw new DocumentRefused('the PDF holds too much text: split it')
    if (text !== '') pages.push(text)
  }
  if (pages.length === 0)
    throw new DocumentRefused('the PDF holds no text: a scanned one needs text recognition first')
  return pages.join('\n\n')
}

async function open(bytes: Uint8Array): ReturnType<typeof getDocumentProxy> {
  try {
    return await getDocumentProxy(bytes, { verbosity: 0 })
  } catch (error) {
    if ((error as Error).name === 'PasswordException')
      throw new DocumentRefused('the PDF is protected by a password: save it without one')
    throw new DocumentRefused('the PDF is damaged: save it anew')
  }
}
