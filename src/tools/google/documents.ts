import { docs } from '@googleapis/docs'
import { drive } from '@googleapis/drive'
import { z } from 'zod'
import { ToolError } from '../kit/executor.ts'
import { digestOf } from '../kit/marker.ts'
import type { FinderOf, ToolBody } from '../kit/params.ts'
import { googleOf } from './client.ts'
import { documentFields, textOfTabs } from './document-text.ts'
import { unreadable } from './errors.ts'
import { fileIdAt } from './place.ts'

/*
 * A document is made by uploading its text to Drive. One request makes the file with its text, its folder and the mark
 * of the call. Drive does not let us choose the id of a document. So after a lost answer, the document is found by its
 * mark. The mark is a property of the file. Only this client of Google's APIs sees the property.
 */

const { documents } = docs('v1')
const { files } = drive('v3')

const linkTo = (id: string): string => `https://docs.google.com/document/d/${id}/edit`

const aDocument = z.object({ documentId: z.string(), title: z.string().default(''), tabs: z.unknown() })

export const readDocument: ToolBody<'docs_read'> = async (call, context) => {
  const documentId = fileIdAt('document', call.params.document)
  const google = await googleOf(call, context, 'docs_read')
  const found = await google.read('docs', aDocument, (options) =>
    documents.get(
      {
        documentId,
        includeTabsContent: true,
        suggestionsViewMode: 'PREVIEW_WITHOUT_SUGGESTIONS',
        fields: documentFields,
      },
      options,
    ),
  )
  requireSame(documentId, found.documentId)
  const text = textOfTabs(found.tabs)
  if (text === null) throw unreadable('again')
  return { output: { document_id: documentId, title: found.title, text, url: linkTo(documentId) } }
}

/** Throws ToolError if Google answered with another file, because rules have decided only about `asked`. */
export function requireSame(asked: string, got: string): void {
  if (asked === got) return
  throw new ToolError(
    'google_other_file',
    'Google answered with another file: give the id or the link of the file itself',
    { retryable: false },
  )
}

const documentType = 'application/vnd.google-apps.document'
const property = 'countersign'
const made = z.object({ id: z.string() })

/**
 * Turns pictures into links. Otherwise Google would fetch pictures from the hosts that a text names, and these hosts
 * would learn what the links contain.
 */
const withoutPictures = (text: string): string => text.replaceAll('![', '[').replaceAll(/<(?=img\b)/gi, '< ')

export const createDocument: ToolBody<'docs_create'> = async (call, context) => {
  const { title, content, folder } = call.params
  const parents = folder === undefined ? {} : { parents: [fileIdAt('folder', folder)] }
  const google = await googleOf(call, context, 'docs_create')
  const requestBody = {
    name: title,
    mimeType: documentType,
    appProperties: { [property]: digestOf(call) },
    ...parents,
  }
  const media = { mimeType: 'text/markdown', body: withoutPictures(content) }
  await context.pointOfNoReturn()
  const { id } = await google.write('drive', made, (options) =>
    files.create({ requestBody, media, supportsAllDrives: true, fields: 'id' }, options),
  )
  return { output: { document_id: id, url: linkTo(id) } }
}

/** Drive's lists name their kind. Without this check, any object would count as an empty list. */
export const listKind = z.literal('drive#fileList')

const marked = z.object({
  kind: listKind,
  incompleteSearch: z.boolean().default(false),
  nextPageToken: z.string().optional(),
  files: z.array(made).max(100).default([]),
})

export const findDocument: FinderOf<'docs_create'> = async (call, context) => {
  const google = await googleOf(call, context, 'docs_create')
  const {
    incompleteSearch,
    nextPageToken,
    files: found,
  } = await google.read('drive', marked, (options) =>
    files.list(
      {
        q: `appProperties has { key='${property}' and value='${digestOf(call)}' }`,
        corpora: 'allDrives',
        includeItemsFromAllDrives: true,
        supportsAllDrives: true,
        pageSize: 10,
        fields: 'kind,incompleteSearch,nextPageToken,files(id)',
      },
      options,
    ),
  )
  const [first] = found
  if (first !== undefined) return { kind: 'done', output: { document_id: first.id, url: linkTo(first.id) } }
  // Further pages may follow an empty page. So an empty page alone does not prove that the document is absent.
  return { kind: incompleteSearch || nextPageToken !== undefined ? 'unclear' : 'absent' }
}
