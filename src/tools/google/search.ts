import { drive } from '@googleapis/drive'
import { z } from 'zod'
import { defaultsOf } from '../../policy/tool-defaults.ts'
import { listOf } from '../kit/bounded-list.ts'
import type { ToolBody } from '../kit/params.ts'
import { googleOf } from './client.ts'
import { listKind } from './documents.ts'

const { files } = drive('v3')

const found = z.object({
  kind: listKind,
  incompleteSearch: z.boolean().default(false),
  files: listOf(
    z.object({
      id: z.string(),
      name: z.string().default(''),
      mimeType: z.string().default(''),
      webViewLink: z.string().default(''),
      shortcutDetails: z
        .object({ targetId: z.string().optional(), targetMimeType: z.string().optional() })
        .optional(),
    }),
  ).default([]),
})

/** Quotes a text for Drive's query language. */
const quoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

export const searchDrive: ToolBody<'drive_search'> = async (call, context) => {
  const { query, limit = defaultsOf.drive_search.limit } = call.params
  const google = await googleOf(call, context, 'drive_search')
  const words = quoted(query)
  const listed = await google.read('drive', found, (options) =>
    files.list(
      {
        q: `(name contains ${words} or fullText contains ${words}) and trashed = false`,
        corpora: 'allDrives',
        includeItemsFromAllDrives: true,
        supportsAllDrives: true,
        pageSize: limit,
        fields:
          'kind,incompleteSearch,files(id,name,mimeType,webViewLink,shortcutDetails(targetId,targetMimeType))',
      },
      options,
    ),
  )
  return {
    output: {
      incomplete: listed.incompleteSearch,
      // Rules decide about the file to which a shortcut leads. So the output has the id of that file, and not the
      // shortcut's own id.
      files: listed.files.slice(0, limit).map(({ id, name, mimeType, webViewLink, shortcutDetails }) => ({
        id: shortcutDetails?.targetId ?? id,
        name,
        media_type: shortcutDetails?.targetMimeType ?? mimeType,
        url: webViewLink,
      })),
    },
  }
}
