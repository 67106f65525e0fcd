/** The common part of the declarations of tools that read documents, issues or cards of the organization. */
export const readsInternal = {
  sideEffect: 'read',
  outputLabels: ['internal'],
  categories: [],
  risk: 'medium',
  constraints: { max_response_size_kb: {} },
  repeat: 'free',
  reversible: 'yes',
} as const
