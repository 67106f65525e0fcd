import { strToU8, zipSync } from 'fflate'

/* Makes small real files of each type. They are generated here, so that their text is known. */

/** Returns a PDF with one page for each text. */
export function pdfOf(...pages: readonly string[]): Buffer {
  const streams = pages.map((text) => {
    const lines = text
      .split('\n')
      .map((line) => `(${line.replaceAll(/[()\\]/g, (sign) => `\\${sign}`)}) Tj T*`)
    return `BT /F1 12 Tf 14 TL 50 750 Td ${lines.join(' ')} ET`
  })
  const kids = pages.map((_, index) => `${4 + 2 * index} 0 R`).join(' ')
  return pdfOfObjects([
    '<< /Type /Catalog /Pages 2 0 R >>',
    `<< /Type /Pages /Kids [${kids}] /Count ${pages.length} >>`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
    ...streams.flatMap((stream, index) => [
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents ${5 + 2 * index} 0 R >>`,
      `<< /Length ${stream.length} >>\nstream\n${stream}\nendstream`,
    ]),
  ])
}

/** Returns a PDF of these objects. The objects are numbered from 1. The first object is the catalogue. */
export function pdfOfObjects(objects: readonly string[]): Buffer {
  let text = '%PDF-1.7\n'
  const places = objects.map((object, index) => {
    const place = text.length
    text += `${index + 1} 0 obj\n${object}\nendobj\n`
    return place
  })
  const table = places.map((place) => `${String(place).padStart(10, '0')} 00000 n \n`).join('')
  const size = objects.length + 1
  const start = text.length
  text += `xref\n0 ${size}\n0000000000 65535 f \n${table}trailer\n<< /Size ${size} /Root 1 0 R >>\nstartxref\n${start}\n%%EOF\n`
  return Buffer.from(text, 'latin1')
}

const xml = (body: string): Uint8Array =>
  strToU8(`<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n${body}`)
const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
const relationships = 'http://schemas.openxmlformats.org/package/2006/relationships'
const office = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships'
const types = 'http://schemas.openxmlformats.org/package/2006/content-types'

const rootOf = (target: string) =>
  xml(
    `<Relationships xmlns="${relationships}"><Relationship Id="rId1" Type="${office}/officeDocument" Target="${target}"/></Relationships>`,
  )

export type Parts = Readonly<Record<string, Uint8Array>>

export const zipOf = (parts: Parts, level: 1 | 9 = 9): Buffer => Buffer.from(zipSync({ ...parts }, { level }))

/** Returns the parts of a Word file. `document` replaces the main part. */
export function docxParts(paragraphs: readonly string[], document?: string): Parts {
  const word = 'http://schemas.openxmlformats.org/wordprocessingml/2006/main'
  const body = paragraphs.map(
    (text) => `<w:p><w:r><w:t xml:space="preserve">${escaped(text)}</w:t></w:r></w:p>`,
  )
  return {
    '[Content_Types].xml': xml(
      `<Types xmlns="${types}"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/word/document.xml" ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>`,
    ),
    '_rels/.rels': rootOf('word/document.xml'),
    'word/document.xml':
      document === undefined
        ? xml(`<w:document xmlns:w="${word}"><w:body>${body.join('')}</w:body></w:document>`)
        : strToU8(document),
  }
}

export const docxOf = (...paragraphs: readonly string[]): Buffer => zipOf(docxParts(paragraphs))

/** Returns the parts of an Excel file with one sheet. `sheet` replaces the rows of the sheet. */
export function xlsxParts(rows: readonly (readonly (string | number)[])[], sheet?: string): Parts {
  const main = 'http://schemas.openxmlformats.org/spreadsheetml/2006/main'
  const cell = (value: string | number, row: number, column: number): string => {
    const place = `${String.fromCharCode(65 + column)}${row + 1}`
    return typeof value === 'number'
      ? `<c r="${place}"><v>${value}</v></c>`
      : `<c r="${place}" t="inlineStr"><is><t>${escaped(value)}</t></is></c>`
  }
  const lines = rows.map(
    (row, at) => `<row r="${at + 1}">${row.map((value, column) => cell(value, at, column)).join('')}</row>`,
  )
  return {
    '[Content_Types].xml': xml(
      `<Types xmlns="${types}"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>`,
    ),
    '_rels/.rels': rootOf('xl/workbook.xml'),
    'xl/workbook.xml': xml(
      `<workbook xmlns="${main}" xmlns:r="${office}"><sheets><sheet name="Invoices" sheetId="1" r:id="rId1"/></sheets></workbook>`,
    ),
    'xl/_rels/workbook.xml.rels': xml(
      `<Relationships xmlns="${relationships}"><Relationship Id="rId1" Type="${office}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>`,
    ),
    'xl/worksheets/sheet1.xml': xml(
      `<worksheet xmlns="${main}"><sheetData>${sheet ?? lines.join('')}</sheetData></worksheet>`,
    ),
  }
}

export const xlsxOf = (rows: readonly (readonly (string | number)[])[]): Buffer => zipOf(xlsxParts(rows))
