"""Names of operators' results, for references inside functions.

Inside a function a result is called `node:argument:index`, by the name of an output argument. An operator that is not in the
table has one output argument of one tensor; all others of TensorFlow 2.21 are in it.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

#: Output arguments by operator; `name*attribute` is a list of as many tensors as the attribute says (a number, or the length
#: of a list of types).
_TABLE = """
AllCandidateSampler: sampled_candidates true_expected_count sampled_expected_count; AnonymousIteratorV2: handle deleter;
AnonymousMemoryCache: handle deleter; AnonymousMultiDeviceIterator: handle deleter; AnonymousRandomSeedGenerator: handle
deleter; AnonymousSeedGenerator: handle deleter; ApproxTopK: values indices; BarrierTakeMany: indices keys
values*component_types; Batch: batched_tensors*T batch_index id; BatchFunction: out_tensors*Tout;
BatchNormWithGlobalNormalizationGrad: dx dm dv db dg; BatchSelfAdjointEigV2: e v; BatchSvd: s u v; BlockLSTM: i cs f o ci co
h; BlockLSTMGrad: x_grad cs_prev_grad h_prev_grad w_grad wci_grad wcf_grad wco_grad b_grad; BlockLSTMGradV2: x_grad
cs_prev_grad h_prev_grad w_grad wci_grad wcf_grad wco_grad b_grad; BlockLSTMV2: i cs f o ci co h; BoostedTreesBucketize:
buckets*num_features; BoostedTreesCalculateBestFeatureSplit: node_ids gains feature_dimensions thresholds left_node_contribs
right_node_contribs split_with_default_directions; BoostedTreesCalculateBestFeatureSplitV2: node_ids gains feature_ids
feature_dimensions thresholds left_node_contribs right_node_contribs split_with_default_directions;
BoostedTreesCalculateBestGainsPerFeature: node_ids_list*num_features gains_list*num_features thresholds_list*num_features
left_node_contribs_list*num_features right_node_contribs_list*num_features; BoostedTreesFlushQuantileSummaries:
summaries*num_features; BoostedTreesGetEnsembleStates: stamp_token num_trees num_finalized_trees num_attempted_layers
last_layer_nodes_range; BoostedTreesMakeQuantileSummaries: summaries*num_features;
BoostedTreesQuantileStreamResourceGetBucketBoundaries: bucket_boundaries*num_features; BoostedTreesSerializeEnsemble:
stamp_token tree_ensemble_serialized; BoostedTreesSparseAggregateStats: stats_summary_indices stats_summary_values
stats_summary_shape; BoostedTreesSparseCalculateBestFeatureSplit: node_ids gains feature_dimensions thresholds
left_node_contribs right_node_contribs split_with_default_directions; BoostedTreesTrainingPredict: partial_logits tree_ids
node_ids; BroadcastGradientArgs: r0 r1; CSRSparseMatrixComponents: row_ptrs col_inds values; CSRSparseMatrixToSparseTensor:
indices values dense_shape; CTCBeamSearchDecoder: decoded_indices*top_paths decoded_values*top_paths decoded_shape*top_paths
log_probability; CTCGreedyDecoder: decoded_indices decoded_values decoded_shape log_probability; CTCLoss: loss gradient;
CTCLossV2: loss gradient; Case: output*Tout; CollectiveAssignGroupV2: group_size group_key; CombinedNonMaxSuppression:
nmsed_boxes nmsed_scores nmsed_classes valid_detections; ComplexStruct: a*n_a b*n_b c*t_c;
CompositeTensorVariantToComponents: components*Tcomponents; ComputeAccidentalHits: indices ids weights; ConcatOffset:
offset*N; ConvertToCooTensor: row_ids col_ids gains; ConvertToListOfSparseCoreCooTensors: row_ids_list*num_sc_per_chip
col_ids_list*num_sc_per_chip gains_list*num_sc_per_chip; ConvertToSparseCoreCsrWrappedCooTensor: row_pointers
sorted_sample_ids sorted_token_ids sorted_gains row_pointers_unpadded_size ids_unpadded_size num_minibatches_per_sc;
CudnnRNN: output output_h output_c reserve_space; CudnnRNNBackprop: input_backprop input_h_backprop input_c_backprop
params_backprop; CudnnRNNBackpropV2: input_backprop input_h_backprop input_c_backprop params_backprop; CudnnRNNBackpropV3:
input_backprop input_h_backprop input_c_backprop params_backprop; CudnnRNNParamsToCanonical: weights*num_params
biases*num_params; CudnnRNNParamsToCanonicalV2: weights*num_params_weights biases*num_params_biases; CudnnRNNV2: output
output_h output_c reserve_space host_reserved; CudnnRNNV3: output output_h output_c reserve_space host_reserved;
CustomAggregator: output min max histogram; DTensorRestoreV2: tensors*dtypes; DatasetToSingleElement:
components*output_types; DecodeCSV: output*OUT_TYPE; DecodeProtoV2: sizes values*output_types; DecodeWav: audio sample_rate;
DenseCountSparseOutput: output_indices output_values output_dense_shape; DenseToDenseSetOperation: result_indices
result_values result_shape; DenseToSparseSetOperation: result_indices result_values result_shape; DeserializeManySparse:
sparse_indices sparse_values sparse_shape; DeserializeSparse: sparse_indices sparse_values sparse_shape; DynamicPartition:
outputs*num_partitions; EagerPyFunc: output*Tout; Eig: e v; FakeQuantWithMinMaxVarsGradient: backprops_wrt_input
backprop_wrt_min backprop_wrt_max; FakeQuantWithMinMaxVarsPerChannelGradient: backprops_wrt_input backprop_wrt_min
backprop_wrt_max; FinalizeTPUEmbeddingV2: embedding_partitions hbm_buffers_config; FiveFloatOutputs: a b c d e;
FixedUnigramCandidateSampler: sampled_candidates true_expected_count sampled_expected_count; FloatOutputStringOutput: a b;
Foo1: d e; Foo2: d e; Foo3: d e; For: output*T; FractionalAvgPool: output row_pooling_sequence col_pooling_sequence;
FractionalMaxPool: output row_pooling_sequence col_pooling_sequence; FusedBatchNorm: y batch_mean batch_variance
reserve_space_1 reserve_space_2; FusedBatchNormGrad: x_backprop scale_backprop offset_backprop reserve_space_3
reserve_space_4; FusedBatchNormGradV2: x_backprop scale_backprop offset_backprop reserve_space_3 reserve_space_4;
FusedBatchNormGradV3: x_backprop scale_backprop offset_backprop reserve_space_4 reserve_space_5; FusedBatchNormV2: y
batch_mean batch_variance reserve_space_1 reserve_space_2; FusedBatchNormV3: y batch_mean batch_variance reserve_space_1
reserve_space_2 reserve_space_3; GRUBlockCell: r u c h; GRUBlockCellGrad: d_x d_h_prev d_c_bar d_r_bar_u_bar;
GenerateBoundingBoxProposals: rois roi_probabilities; GenerateVocabRemapping: remapping num_present; GetElementAtIndex:
components*output_types; GetMinibatchSplitsWithPhysicalReplica: sorted_row_ids sorted_col_ids sorted_gains splits id_counts
max_ids max_uniques; GetMinibatchesInCsrWithPhysicalReplica: row_pointers sorted_sample_ids sorted_token_ids sorted_gains
row_pointers_unpadded_size ids_unpadded_size num_minibatches_per_physical_sparse_core;
GetStatsFromListOfSparseCoreCooTensors: max_ids_per_sparse_core max_unique_ids_per_sparse_core; IdentityN: output*T; If:
output*Tout; InfeedDequeueTuple: outputs*dtypes; IntOutputFloatOutput: a b; IsotonicRegression: output segments;
IteratorGetNext: components*output_types; IteratorGetNextSync: components*output_types; LSTMBlockCell: i cs f o ci co h;
LSTMBlockCellGrad: cs_prev_grad dicfo wci_grad wcf_grad wco_grad; LearnedUnigramCandidateSampler: sampled_candidates
true_expected_count sampled_expected_count; ListDiff: out idx; ListOutput: a*T; LogMatrixDeterminant: sign
log_abs_determinant; LogUniformCandidateSampler: sampled_candidates true_expected_count sampled_expected_count;
LookupTableExport: keys values; LookupTableExportV2: keys values; Lu: lu p; MapDefun: output*output_types; MapPeek:
values*dtypes; MapUnstage: values*dtypes; MapUnstageNoKey: key values*dtypes; MaxPoolWithArgmax: output argmax; Merge: output
value_index; MixedStruct: a*n_a b; MlirPassthroughOp: outputs*Toutputs; MultiDeviceIteratorGetNextFromShard:
components*output_types; NIntsOut: a*N; NIntsOutDefault: a*N; NPolymorphicOut: a*N; NPolymorphicOutDefault: a*N;
NPolymorphicRestrictOut: a*N; Namespace>TestStringOutput: output1 output2; NearestNeighbors: nearest_center_indices
nearest_center_distances; NonMaxSuppressionV4: selected_indices valid_outputs; NonMaxSuppressionV5: selected_indices
selected_scores valid_outputs; OptionalGetValue: components*output_types; OrderedMapPeek: values*dtypes; OrderedMapUnstage:
values*dtypes; OrderedMapUnstageNoKey: key values*dtypes; OutTypeList: out*T; OutTypeListRestrict: out*t;
OutfeedDequeueTuple: outputs*dtypes; OutfeedDequeueTupleV2: outputs*dtypes; ParseExample: sparse_indices*Nsparse
sparse_values*sparse_types sparse_shapes*Nsparse dense_values*Tdense; ParseExampleV2: sparse_indices*num_sparse
sparse_values*sparse_types sparse_shapes*num_sparse dense_values*Tdense ragged_values*ragged_value_types
ragged_row_splits*ragged_split_types; ParseSequenceExample: context_sparse_indices*Ncontext_sparse
context_sparse_values*context_sparse_types context_sparse_shapes*Ncontext_sparse context_dense_values*Tcontext_dense
feature_list_sparse_indices*Nfeature_list_sparse feature_list_sparse_values*feature_list_sparse_types
feature_list_sparse_shapes*Nfeature_list_sparse feature_list_dense_values*feature_list_dense_types
feature_list_dense_lengths*Nfeature_list_dense; ParseSequenceExampleV2: context_sparse_indices*Ncontext_sparse
context_sparse_values*context_sparse_types context_sparse_shapes*Ncontext_sparse context_dense_values*Tcontext_dense
context_ragged_values*context_ragged_value_types context_ragged_row_splits*context_ragged_split_types
feature_list_sparse_indices*Nfeature_list_sparse feature_list_sparse_values*feature_list_sparse_types
feature_list_sparse_shapes*Nfeature_list_sparse feature_list_dense_values*feature_list_dense_types
feature_list_dense_lengths*Nfeature_list_dense feature_list_ragged_values*feature_list_ragged_value_types
feature_list_ragged_outer_splits*feature_list_ragged_split_types
feature_list_ragged_inner_splits*feature_list_ragged_split_types; ParseSingleExample: sparse_indices*num_sparse
sparse_values*sparse_types sparse_shapes*num_sparse dense_values*Tdense; ParseSingleSequenceExample:
context_sparse_indices*Ncontext_sparse context_sparse_values*context_sparse_types context_sparse_shapes*Ncontext_sparse
context_dense_values*Tcontext_dense feature_list_sparse_indices*Nfeature_list_sparse
feature_list_sparse_values*feature_list_sparse_types feature_list_sparse_shapes*Nfeature_list_sparse
feature_list_dense_values*feature_list_dense_types; PartitionedCall: output*Tout; PyFunc: output*Tout; PyFuncStateless:
output*Tout; Qr: q r; QuantizeAndDequantizeV4Grad: input_backprop input_min_backprop input_max_backprop;
QuantizeDownAndShrinkRange: output output_min output_max; QuantizeV2: output output_min output_max; QuantizedAdd: z min_z
max_z; QuantizedAvgPool: output min_output max_output; QuantizedBatchNormWithGlobalNormalization: result result_min
result_max; QuantizedBiasAdd: output min_out max_out; QuantizedConcat: output output_min output_max; QuantizedConcatV2:
output output_min output_max; QuantizedConv2D: output min_output max_output; QuantizedConv2DAndRelu: output min_output
max_output; QuantizedConv2DAndReluAndRequantize: output min_output max_output; QuantizedConv2DAndRequantize: output
min_output max_output; QuantizedConv2DPerChannel: output min_output max_output; QuantizedConv2DWithBias: output min_output
max_output; QuantizedConv2DWithBiasAndRelu: output min_output max_output; QuantizedConv2DWithBiasAndReluAndRequantize: output
min_output max_output; QuantizedConv2DWithBiasAndRequantize: output min_output max_output;
QuantizedConv2DWithBiasSignedSumAndReluAndRequantize: output min_output max_output; QuantizedConv2DWithBiasSumAndRelu: output
min_output max_output; QuantizedConv2DWithBiasSumAndReluAndRequantize: output min_output max_output;
QuantizedDepthwiseConv2D: output min_output max_output; QuantizedDepthwiseConv2DWithBias: output min_output max_output;
QuantizedDepthwiseConv2DWithBiasAndRelu: output min_output max_output; QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize:
output min_output max_output; QuantizedInstanceNorm: y y_min y_max; QuantizedMatMul: out min_out max_out;
QuantizedMatMulWithBias: out min_out max_out; QuantizedMatMulWithBiasAndRelu: out min_out max_out;
QuantizedMatMulWithBiasAndReluAndRequantize: out min_out max_out; QuantizedMatMulWithBiasAndRequantize: out min_out max_out;
QuantizedMaxPool: output min_output max_output; QuantizedMul: z min_z max_z; QuantizedRelu: activations min_activations
max_activations; QuantizedRelu6: activations min_activations max_activations; QuantizedReluX: activations min_activations
max_activations; QuantizedReshape: output output_min output_max; QuantizedResizeBilinear: resized_images out_min out_max;
QueueDequeue: components*component_types; QueueDequeueMany: components*component_types; QueueDequeueManyV2:
components*component_types; QueueDequeueUpTo: components*component_types; QueueDequeueUpToV2: components*component_types;
QueueDequeueV2: components*component_types; RaggedCountSparseOutput: output_indices output_values output_dense_shape;
RaggedCross: output_values output_row_splits; RaggedFillEmptyRows: output_value_rowids output_values empty_row_indicator
reverse_index_map; RaggedFillEmptyRowsGrad: d_values d_default_value; RaggedGather: output_nested_splits*OUTPUT_RAGGED_RANK
output_dense_values; RaggedRange: rt_nested_splits rt_dense_values; RaggedTensorFromVariant:
output_nested_splits*output_ragged_rank output_dense_values; RaggedTensorToSparse: sparse_indices sparse_values
sparse_dense_shape; ReadVariableXlaSplitND: outputs*N; ReaderRead: key value; ReaderReadUpTo: keys values; ReaderReadUpToV2:
keys values; ReaderReadV2: key value; RecvTPUEmbeddingActivations: outputs*num_outputs; ReduceDataset:
components*output_types; RefMerge: output value_index; RefOutputFloatOutput: a b; RefSwitch: output_false output_true;
RemoteCall: output*Tout; RequantizationRange: output_min output_max; RequantizationRangePerChannel: output_min output_max;
Requantize: output output_min output_max; RequantizePerChannel: output output_min output_max; RestoreV2: tensors*dtypes;
RetrieveAllTPUEmbeddingParameters: parameters*NumTables auxiliary1*NumTables auxiliary2*NumTables auxiliary3*NumTables
auxiliary4*NumTables auxiliary5*NumTables auxiliary6*NumTables auxiliary7*NumTables; RetrieveTPUEmbeddingADAMParameters:
parameters momenta velocities; RetrieveTPUEmbeddingAdadeltaParameters: parameters accumulators updates;
RetrieveTPUEmbeddingAdagradMomentumParameters: parameters accumulators momenta; RetrieveTPUEmbeddingAdagradParameters:
parameters accumulators; RetrieveTPUEmbeddingCenteredRMSPropParameters: parameters ms mom mg;
RetrieveTPUEmbeddingFTRLParameters: parameters accumulators linears; RetrieveTPUEmbeddingFrequencyEstimatorParameters:
parameters last_hit_step; RetrieveTPUEmbeddingMDLAdagradLightParameters: parameters accumulators weights benefits;
RetrieveTPUEmbeddingMomentumParameters: parameters momenta; RetrieveTPUEmbeddingProximalAdagradParameters: parameters
accumulators; RetrieveTPUEmbeddingProximalYogiParameters: parameters v m; RetrieveTPUEmbeddingRMSPropParameters: parameters
ms mom; RiscWhile: output*T; RpcCall: future deleter; RpcCheckStatus: error_code error; RpcClient: client method_specs;
RpcGetValue: output*Tout; SampleDistortedBoundingBox: begin size bboxes; SampleDistortedBoundingBoxV2: begin size bboxes;
SdcaOptimizer: out_example_state_data out_delta_sparse_weights*num_sparse_features
out_delta_dense_weights*num_dense_features; SdcaOptimizerV2: out_example_state_data
out_delta_sparse_weights*num_sparse_features out_delta_dense_weights*num_dense_features; SelfAdjointEigV2: e v; ShapeN:
output*N; SimpleStruct: a*n_a; Skipgram: vocab_word vocab_freq words_per_epoch current_epoch total_words_processed examples
labels; SoftmaxCrossEntropyWithLogits: loss backprop; SortListOfSparseCoreCooTensors: sorted_row_ids sorted_col_ids
sorted_gains id_counts; SparseAccumulatorTakeGradient: indices values shape; SparseAdd: sum_indices sum_values sum_shape;
SparseAddGrad: a_val_grad b_val_grad; SparseConcat: output_indices output_values output_shape; SparseCountSparseOutput:
output_indices output_values output_dense_shape; SparseCross: output_indices output_values output_shape; SparseCrossHashed:
output_indices output_values output_shape; SparseCrossV2: output_indices output_values output_shape; SparseFillEmptyRows:
output_indices output_values empty_row_indicator reverse_index_map; SparseFillEmptyRowsGrad: d_values d_default_value;
SparseReduceMaxSparse: output_indices output_values output_shape; SparseReduceSumSparse: output_indices output_values
output_shape; SparseReorder: output_indices output_values; SparseReshape: output_indices output_shape;
SparseSegmentMeanGradV2: output sorted_unique_indices; SparseSegmentSqrtNGradV2: output sorted_unique_indices;
SparseSegmentSumGradV2: output sorted_unique_indices; SparseSlice: output_indices output_values output_shape;
SparseSoftmaxCrossEntropyWithLogits: loss backprop; SparseSparseMaximum: output_indices output_values; SparseSparseMinimum:
output_indices output_values; SparseSplit: output_indices*num_split output_values*num_split output_shape*num_split;
SparseToSparseSetOperation: result_indices result_values result_shape; Split: output*num_split; SplitDedupData:
integer_tensor float_tensor; SplitV: output*num_split; StagePeek: values*dtypes; StatefulPartitionedCall: output*Tout;
StatelessCase: output*Tout; StatelessIf: output*Tout; StatelessRandomGetKeyCounter: key counter;
StatelessRandomGetKeyCounterAlg: key counter alg; StatelessSampleDistortedBoundingBox: begin size bboxes; StatelessWhile:
output*T; StringNGrams: ngrams ngrams_splits; StringSplit: indices values shape; StringSplitV2: indices values shape; Svd: s
u v; Switch: output_false output_true; SymbolicGradient: output*Tout; TPUAnnotateTensorsWithDynamicShape: tpu_tensors*T;
TPUCompile: compilation_status program*num_computations may_modify_variables*num_computations; TPUCopyWithDynamicShape:
tpu_tensors*T; TPUExecute: results*Tresults; TPUExecuteAndUpdateVariables: results*Tresults; TPUPartitionedCall: output*Tout;
TPUPartitionedOutput: output*num_splits; TPUPartitionedOutputV2: output*num_splits; TPUReplicatedOutput:
outputs*num_replicas; TakeManySparseFromTensorsMap: sparse_indices sparse_values sparse_shape; TensorArrayConcat: value
lengths; TensorArrayConcatV2: value lengths; TensorArrayConcatV3: value lengths; TensorArrayGradV3: grad_handle flow_out;
TensorArrayGradWithShape: grad_handle flow_out; TensorArrayV3: handle flow; TensorListConcat: tensor lengths;
TensorListConcatV2: tensor lengths; TensorListPopBack: output_handle tensor; TestStringOutput: output1 output2;
ThreadUnsafeUnigramCandidateSampler: sampled_candidates true_expected_count sampled_expected_count; TopK: values indices;
TopKUnique: topk topk_indices; TopKV2: values indices; TopKWithUnique: topk topk_indices; TwoFloatOutputs: a b;
TwoIntOutputs: a b; UncompressElement: components*output_types; UnicodeDecode: row_splits char_values;
UnicodeDecodeWithOffsets: row_splits char_values char_to_byte_starts; UniformCandidateSampler: sampled_candidates
true_expected_count sampled_expected_count; Unique: y idx; UniqueV2: y idx; UniqueWithCounts: y idx count;
UniqueWithCountsV2: y idx count; Unpack: output*num; Unstage: values*dtypes; While: output*T; XlaBroadcastHelper: lhs_output
rhs_output; XlaCallModule: output*Tout; XlaCustomCallV2: results*result_dtypes; XlaHostCompute: outputs*Toutputs; XlaIf:
output*Tout; XlaKeyValueSort: sorted_keys sorted_values; XlaLaunch: results*Tresults; XlaLaunchV2: results*Tresults;
XlaOptimizationBarrier: output*T; XlaRecvTPUEmbeddingActivations: outputs*num_tables; XlaRecvTPUEmbeddingActivationsV2:
outputs*num_tables; XlaRngBitGenerator: output_key output; XlaSelfAdjointEig: w v; XlaSparseActivationsUnstack:
unstacked_activations*num_tables; XlaSparseCoreAdagrad: updated_embedding_table updated_accumulator;
XlaSparseCoreAdagradMomentum: updated_embedding_table updated_accumulator updated_momentum; XlaSparseCoreAdam:
updated_embedding_table updated_velocity updated_momentum; XlaSparseCoreFtrl: updated_embedding_table updated_accumulator
updated_linear; XlaSparseDenseMatmul: activations row_pointers sorted_embedding_ids sorted_sample_ids sorted_gains;
XlaSparseDenseMatmulCustomCombinerOnTcGradWithAdagradAndCsrInput: updated_embedding_table updated_accumulator
updated_weights; XlaSparseDenseMatmulCustomCombinerOnTcGradWithAdagradMomentumAndCsrInput: updated_embedding_table
updated_accumulator updated_momenta updated_weights; XlaSparseDenseMatmulCustomCombinerOnTcGradWithAdamAndCsrInput:
updated_embedding_table updated_momenta updated_velocity updated_weights;
XlaSparseDenseMatmulCustomCombinerOnTcGradWithCsrInput: updated_tables*N updated_weights;
XlaSparseDenseMatmulCustomCombinerOnTcGradWithFtrlAndCsrInput: updated_embedding_table updated_accumulator updated_linear
updated_weights; XlaSparseDenseMatmulCustomCombinerOnTcGradWithSgdAndCsrInput: updated_embedding_table updated_weights;
XlaSparseDenseMatmulCustomCombinerOnTcWithCsrInput: activations preserved_valencies preserved_vectors;
XlaSparseDenseMatmulGradWithAdagradAndCsrInput: updated_embedding_table updated_accumulator;
XlaSparseDenseMatmulGradWithAdagradAndStaticBufferSize: updated_embedding_table updated_accumulator;
XlaSparseDenseMatmulGradWithAdagradMomentumAndCsrInput: updated_embedding_table updated_accumulator updated_momenta;
XlaSparseDenseMatmulGradWithAdagradMomentumAndStaticBufferSize: updated_embedding_table updated_accumulator updated_momenta;
XlaSparseDenseMatmulGradWithAdamAndCsrInput: updated_embedding_table updated_momenta updated_velocity;
XlaSparseDenseMatmulGradWithAdamAndStaticBufferSize: updated_embedding_table updated_momenta updated_velocity;
XlaSparseDenseMatmulGradWithCsrInput: updated_tables*N; XlaSparseDenseMatmulGradWithFtrlAndCsrInput: updated_embedding_table
updated_accumulator updated_linear; XlaSparseDenseMatmulGradWithFtrlAndStaticBufferSize: updated_embedding_table
updated_accumulator updated_linear; XlaSplitND: outputs*N; XlaSvd: s u v; XlaVariadicReduce: output*N; XlaVariadicReduceV2:
outputs*T; XlaVariadicSort: outputs*T; XlaWhile: output*T; _ArrayToList: output*out_types; _FusedBatchNormEx: y batch_mean
batch_variance reserve_space_1 reserve_space_2 reserve_space_3; _FusedBatchNormGradEx: x_backprop scale_backprop
offset_backprop reserve_space_4 reserve_space_5 side_input_backprop*num_side_inputs; _FusedQuantizedConv2D:
device_outputs*Tdevice_outputs host_outputs*Thost_outputs; _FusedQuantizedDepthwiseConv2D: device_outputs*Tdevice_outputs
host_outputs*Thost_outputs; _If: output*Tout; _ListToArray: output*N; _MklAvgPool: output mkl_output; _MklAvgPool3D: output
mkl_output; _MklAvgPool3DGrad: output mkl_output; _MklAvgPoolGrad: output mkl_output; _MklConcat: output mkl_output;
_MklConcatV2: output mkl_output; _MklConv2D: output filter_output mkl_output mkl_filter_output; _MklConv2DBackpropFilter:
output mkl_output; _MklConv2DBackpropFilterWithBias: output bias_grad mkl_output mkl_bias_grad; _MklConv2DBackpropInput:
output mkl_output; _MklConv2DWithBias: output filter_output mkl_output mkl_filter_output; _MklConv3D: output filter_output
mkl_output mkl_filter_output; _MklConv3DBackpropFilterV2: output mkl_output; _MklConv3DBackpropInputV2: output mkl_output;
_MklDepthwiseConv2dNative: output filter_output mkl_output mkl_filter_output; _MklDepthwiseConv2dNativeBackpropFilter: output
mkl_output; _MklDepthwiseConv2dNativeBackpropInput: output mkl_output; _MklElu: activations mkl_activations; _MklEluGrad:
backprops mkl_backprops; _MklFusedBatchNorm: y batch_mean batch_variance reserve_space_1 reserve_space_2 mkl_y mkl_batch_mean
mkl_batch_variance mkl_reserve_space_1 mkl_reserve_space_2; _MklFusedBatchNormEx: y batch_mean batch_variance reserve_space_1
reserve_space_2 reserve_space_3 mkl_y mkl_batch_mean mkl_batch_variance mkl_reserve_space_1 mkl_reserve_space_2
mkl_reserve_space_3; _MklFusedBatchNormGrad: x_backprop scale_backprop offset_backprop reserve_space_3 reserve_space_4
mkl_x_backprop mkl_scale_backprop mkl_offset_backprop mkl_reserve_space_3 mkl_reserve_space_4; _MklFusedBatchNormGradV2:
x_backprop scale_backprop offset_backprop reserve_space_3 reserve_space_4 mkl_x_backprop mkl_scale_backprop
mkl_offset_backprop mkl_reserve_space_3 mkl_reserve_space_4; _MklFusedBatchNormGradV3: x_backprop scale_backprop
offset_backprop reserve_space_4 reserve_space_5 mkl_x_backprop mkl_scale_backprop mkl_offset_backprop mkl_reserve_space_4
mkl_reserve_space_5; _MklFusedBatchNormV2: y batch_mean batch_variance reserve_space_1 reserve_space_2 mkl_y mkl_batch_mean
mkl_batch_variance mkl_reserve_space_1 mkl_reserve_space_2; _MklFusedBatchNormV3: y batch_mean batch_variance reserve_space_1
reserve_space_2 reserve_space_3 mkl_y mkl_batch_mean mkl_batch_variance mkl_reserve_space_1 mkl_reserve_space_2
mkl_reserve_space_3; _MklFusedConv2D: output filter_output mkl_output mkl_filter_output; _MklFusedDepthwiseConv2dNative:
output filter_output mkl_output mkl_filter_output; _MklFusedMatMul: product mkl_product; _MklLeakyRelu: activations
mkl_activations; _MklLeakyReluGrad: backprops mkl_backprops; _MklMaxPool: output workspace mkl_output mkl_workspace;
_MklMaxPool3D: output workspace mkl_output mkl_workspace; _MklMaxPool3DGrad: output mkl_output; _MklMaxPoolGrad: output
mkl_output; _MklNativeConv2DBackpropFilterWithBias: output bias_grad; _MklNativeFusedBatchNorm: y batch_mean batch_variance
reserve_space_1 reserve_space_2; _MklNativeFusedBatchNormEx: y batch_mean batch_variance reserve_space_1 reserve_space_2
reserve_space_3; _MklNativeFusedBatchNormGrad: x_backprop scale_backprop offset_backprop reserve_space_3 reserve_space_4;
_MklNativeFusedBatchNormGradV2: x_backprop scale_backprop offset_backprop reserve_space_3 reserve_space_4;
_MklNativeFusedBatchNormGradV3: x_backprop scale_backprop offset_backprop reserve_space_4 reserve_space_5;
_MklNativeFusedBatchNormV2: y batch_mean batch_variance reserve_space_1 reserve_space_2; _MklNativeFusedBatchNormV3: y
batch_mean batch_variance reserve_space_1 reserve_space_2 reserve_space_3; _MklNativeMaxPool: output workspace;
_MklNativeMaxPool3D: output workspace; _MklPadWithConv2D: output filter_output mkl_output mkl_filter_output;
_MklPadWithFusedConv2D: output filter_output mkl_output mkl_filter_output; _MklQuantizeV2: output output_min output_max;
_MklQuantizedAvgPool: output min_output max_output; _MklQuantizedConcatV2: output output_min output_max; _MklQuantizedConv2D:
output min_output max_output; _MklQuantizedConv2DAndRelu: output min_output max_output;
_MklQuantizedConv2DAndReluAndRequantize: output min_output max_output; _MklQuantizedConv2DAndRequantize: output min_output
max_output; _MklQuantizedConv2DPerChannel: output min_output max_output; _MklQuantizedConv2DWithBias: output min_output
max_output; _MklQuantizedConv2DWithBiasAndRelu: output min_output max_output;
_MklQuantizedConv2DWithBiasAndReluAndRequantize: output min_output max_output; _MklQuantizedConv2DWithBiasAndRequantize:
output min_output max_output; _MklQuantizedConv2DWithBiasSignedSumAndReluAndRequantize: output min_output max_output;
_MklQuantizedConv2DWithBiasSumAndRelu: output min_output max_output; _MklQuantizedConv2DWithBiasSumAndReluAndRequantize:
output min_output max_output; _MklQuantizedDepthwiseConv2D: output min_output max_output;
_MklQuantizedDepthwiseConv2DWithBias: output min_output max_output; _MklQuantizedDepthwiseConv2DWithBiasAndRelu: output
min_output max_output; _MklQuantizedDepthwiseConv2DWithBiasAndReluAndRequantize: output min_output max_output;
_MklQuantizedMatMulWithBias: out min_out max_out; _MklQuantizedMatMulWithBiasAndRelu: out min_out max_out;
_MklQuantizedMatMulWithBiasAndReluAndRequantize: out min_out max_out; _MklQuantizedMatMulWithBiasAndRequantize: out min_out
max_out; _MklQuantizedMaxPool: output min_output max_output; _MklRelu: activations mkl_activations; _MklRelu6: activations
mkl_activations; _MklRelu6Grad: backprops mkl_backprops; _MklReluGrad: backprops mkl_backprops; _MklTanh: activations
mkl_activations; _MklTanhGrad: backprops mkl_backprops; _QuantizedMatMul: device_outputs*Tdevice_outputs
host_outputs*Thost_outputs; _QuantizedMaxPool3D: output min_output max_output; _ReadVariablesOp: values*dtypes;
_ScopedAllocatorSplit: output*N; _SwitchN: outputs*num_outs; _TPUCompileMlir: compilation_status program*num_computations;
_TPUReplicate: outputs*output_types; _VarHandlesOp: resources*N; _While: output*T; _XlaCompile: key compilation_successful;
_XlaHostComputeMlir: outputs*Toutputs; _XlaRecvAtHost: outputs*Toutputs; _XlaRecvAtHostV2: outputs*Toutputs; _XlaRun:
results*Tresults; __MklDummyConv2DBackpropFilterWithBias: output bias_grad; __MklDummyPadWithFusedConv2D: output
filter_output mkl_output mkl_filter_output
"""


class Output(NamedTuple):
    """An output argument; `length` is the attribute that says how many tensors it is, empty for one."""

    name: str
    length: str = ""


@cache
def output_table() -> dict[str, tuple[Output, ...]]:
    """Output arguments of the operators that have several, or a list."""
    table: dict[str, tuple[Output, ...]] = {}
    for entry in _TABLE.replace("\n", " ").split(";"):
        operator, _, names = entry.strip().partition(": ")
        table[operator] = tuple(Output(name, length) for name, _, length in (word.partition("*") for word in names.split()))
    return table
