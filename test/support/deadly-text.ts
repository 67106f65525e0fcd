/** What a value says that ends a worker which reads it (dying-worker.ts). */
export const deadlyText = 'a value that ends every worker'
