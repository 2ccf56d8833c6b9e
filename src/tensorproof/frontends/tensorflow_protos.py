"""The messages of TensorFlow's files, from the facts of their fields: TensorFlow is not needed to read them.

The classes live in a pool of descriptors of their own, so that they stand beside TensorFlow's in one process. Fields that
are not in the table are kept when a message is read and written again, as protobuf does with fields that it does not know.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto

#: One message a line. A field is its number, its name (`oneof.name` in a oneof) and its type: a scalar, an enum or a message
#: (`Outer.Inner` for one inside another), `*` if it is repeated, `<key,value>` if it is a map.
_MESSAGES = """
GraphDef: 1 node NodeDef*, 4 versions VersionDef, 3 version int32, 2 library FunctionDefLibrary, 5 debug_info GraphDebugInfo
NodeDef: 1 name string, 2 op string, 3 input string*, 4 device string, 5 attr <string,AttrValue>,\
 6 experimental_debug_info NodeDef.ExperimentalDebugInfo, 7 experimental_type FullTypeDef
NodeDef.ExperimentalDebugInfo: 1 original_node_names string*, 2 original_func_names string*
VersionDef: 1 producer int32, 2 min_consumer int32, 3 bad_consumers int32*
AttrValue: 2 value.s bytes, 3 value.i int64, 4 value.f float, 5 value.b bool, 6 value.type DataType,\
 7 value.shape TensorShapeProto, 8 value.tensor TensorProto, 1 value.list AttrValue.ListValue,\
 10 value.func NameAttrList, 9 value.placeholder string
AttrValue.ListValue: 2 s bytes*, 3 i int64*, 4 f float*, 5 b bool*, 6 type DataType*, 7 shape TensorShapeProto*,\
 8 tensor TensorProto*, 9 func NameAttrList*
NameAttrList: 1 name string, 2 attr <string,AttrValue>
TensorShapeProto: 2 dim TensorShapeProto.Dim*, 3 unknown_rank bool
TensorShapeProto.Dim: 1 size int64, 2 name string
TensorProto: 1 dtype DataType, 2 tensor_shape TensorShapeProto, 3 version_number int32, 4 tensor_content bytes, 13 half_val int32*,\
 5 float_val float*, 6 double_val double*, 7 int_val int32*, 8 string_val bytes*, 9 scomplex_val float*, 10 int64_val int64*,\
 11 bool_val bool*, 12 dcomplex_val double*, 14 resource_handle_val ResourceHandleProto*, 15 variant_val VariantTensorDataProto*,\
 16 uint32_val uint32*, 17 uint64_val uint64*, 18 float8_val bytes
ResourceHandleProto: 1 device string, 2 container string, 3 name string, 4 hash_code uint64, 5 maybe_type_name string,\
 6 dtypes_and_shapes ResourceHandleProto.DtypeAndShape*
ResourceHandleProto.DtypeAndShape: 1 dtype DataType, 2 shape TensorShapeProto
VariantTensorDataProto: 1 type_name string, 2 metadata bytes, 3 tensors TensorProto*
FullTypeDef: 1 type_id FullTypeId, 2 args FullTypeDef*, 3 attr.s string, 4 attr.i int64
OpList: 1 op OpDef*
OpDef: 1 name string, 2 input_arg OpDef.ArgDef*, 3 output_arg OpDef.ArgDef*, 20 control_output string*, 4 attr OpDef.AttrDef*,\
 8 deprecation OpDeprecation, 5 summary string, 6 description string, 18 is_commutative bool, 16 is_aggregate bool,\
 17 is_stateful bool, 19 allows_uninitialized_input bool, 21 is_distributed_communication bool
OpDef.ArgDef: 1 name string, 2 description string, 3 type DataType, 4 type_attr string, 5 number_attr string,\
 6 type_list_attr string, 7 handle_data ResourceHandleProto.DtypeAndShape*, 16 is_ref bool, 17 experimental_full_type FullTypeDef
OpDef.AttrDef: 1 name string, 2 type string, 3 default_value AttrValue, 4 description string, 5 has_minimum bool,\
 6 minimum int64, 7 allowed_values AttrValue
OpDeprecation: 1 version int32, 2 explanation string
FunctionDefLibrary: 1 function FunctionDef*, 2 gradient GradientDef*, 3 registered_gradients RegisteredGradient*
FunctionDef: 1 signature OpDef, 5 attr <string,AttrValue>, 7 arg_attr <uint32,FunctionDef.ArgAttrs>,\
 8 resource_arg_unique_id <uint32,uint32>, 3 node_def NodeDef*, 4 ret <string,string>, 6 control_ret <string,string>
FunctionDef.ArgAttrs: 1 attr <string,AttrValue>
GradientDef: 1 function_name string, 2 gradient_func string
RegisteredGradient: 1 gradient_func string, 2 registered_op_type string
SavedModel: 1 saved_model_schema_version int64, 2 meta_graphs MetaGraphDef*
MetaGraphDef: 1 meta_info_def MetaGraphDef.MetaInfoDef, 2 graph_def GraphDef, 3 saver_def SaverDef,\
 4 collection_def <string,CollectionDef>, 5 signature_def <string,SignatureDef>, 7 object_graph_def SavedObjectGraph
MetaGraphDef.MetaInfoDef: 1 meta_graph_version string, 2 stripped_op_list OpList, 4 tags string*, 5 tensorflow_version string,\
 6 tensorflow_git_version string, 7 stripped_default_attrs bool, 8 function_aliases <string,string>
SaverDef: 1 filename_tensor_name string, 2 save_tensor_name string, 3 restore_op_name string, 4 max_to_keep int32, 5 sharded bool,\
 6 keep_checkpoint_every_n_hours float, 7 version SaverDef.CheckpointFormatVersion
CollectionDef: 1 kind.node_list CollectionDef.NodeList, 2 kind.bytes_list CollectionDef.BytesList,\
 3 kind.int64_list CollectionDef.Int64List, 4 kind.float_list CollectionDef.FloatList
CollectionDef.NodeList: 1 value string*
CollectionDef.BytesList: 1 value bytes*
CollectionDef.Int64List: 1 value int64*
CollectionDef.FloatList: 1 value float*
VariableDef: 1 variable_name string, 6 initial_value_name string, 2 initializer_name string, 3 snapshot_name string,\
 5 is_resource bool, 7 trainable bool
SignatureDef: 1 inputs <string,TensorInfo>, 2 outputs <string,TensorInfo>, 3 method_name string, 4 defaults <string,TensorProto>
TensorInfo: 1 encoding.name string, 4 encoding.coo_sparse TensorInfo.CooSparse,\
 5 encoding.composite_tensor TensorInfo.CompositeTensor, 2 dtype DataType, 3 tensor_shape TensorShapeProto
TensorInfo.CooSparse: 1 values_tensor_name string, 2 indices_tensor_name string, 3 dense_shape_tensor_name string
TensorInfo.CompositeTensor: 2 components TensorInfo*
SavedObjectGraph: 1 nodes SavedObject*, 2 concrete_functions <string,SavedConcreteFunction>
SavedObject: 1 children TrackableObjectGraph.TrackableObject.ObjectReference*, 7 kind.variable SavedVariable,\
 10 kind.resource SavedResource
SavedVariable: 1 dtype DataType, 2 shape TensorShapeProto, 3 trainable bool, 6 name string, 7 device string
SavedResource: 1 device string
SavedConcreteFunction: 2 bound_inputs int32*
TrackableObjectGraph: 1 nodes TrackableObjectGraph.TrackableObject*
TrackableObjectGraph.TrackableObject: 1 children TrackableObjectGraph.TrackableObject.ObjectReference*,\
 2 attributes TrackableObjectGraph.TrackableObject.SerializedTensor*,\
 3 slot_variables TrackableObjectGraph.TrackableObject.SlotVariableReference*
TrackableObjectGraph.TrackableObject.ObjectReference: 1 node_id int32, 2 local_name string
TrackableObjectGraph.TrackableObject.SerializedTensor: 1 name string, 2 full_name string, 3 checkpoint_key string
TrackableObjectGraph.TrackableObject.SlotVariableReference: 1 original_variable_node_id int32, 2 slot_name string,\
 3 slot_variable_node_id int32
BundleHeaderProto: 1 num_shards int32, 2 endianness BundleHeaderProto.Endianness, 3 version VersionDef
BundleEntryProto: 1 dtype DataType, 2 shape TensorShapeProto, 3 shard_id int32, 4 offset int64, 5 size int64, 6 crc32c fixed32,\
 7 slices TensorSliceProto*
TensorSliceProto: 1 extent TensorSliceProto.Extent*
TensorSliceProto.Extent: 1 start int64, 2 has_length_hack.length int64
"""

#: The message that TensorFlow declares in the older syntax, in which fields know whether they were given.
_OLD_MESSAGES = """
GraphDebugInfo: 1 files string*, 4 frames_by_id <fixed64,GraphDebugInfo.FileLineCol>,\
 6 traces_by_id <fixed64,GraphDebugInfo.StackTrace>, 2 traces <string,GraphDebugInfo.StackTrace>,\
 5 name_to_trace_id <string,fixed64>
GraphDebugInfo.FileLineCol: 1 file_index int32, 2 line int32, 3 col int32, 4 func string, 5 code string
GraphDebugInfo.StackTrace: 1 file_line_cols GraphDebugInfo.FileLineCol*, 2 frame_id fixed64*
"""

#: Types of tensors and their numbers (types.proto); a reference to a type has 100 more.
DATA_TYPES = {
    "FLOAT": 1, "DOUBLE": 2, "INT32": 3, "UINT8": 4, "INT16": 5, "INT8": 6, "STRING": 7, "COMPLEX64": 8, "INT64": 9,
    "BOOL": 10, "QINT8": 11, "QUINT8": 12, "QINT32": 13, "BFLOAT16": 14, "QINT16": 15, "QUINT16": 16, "UINT16": 17,
    "COMPLEX128": 18, "HALF": 19, "RESOURCE": 20, "VARIANT": 21, "UINT32": 22, "UINT64": 23, "FLOAT8_E5M2": 24,
    "FLOAT8_E4M3FN": 25, "FLOAT8_E4M3FNUZ": 26, "FLOAT8_E4M3B11FNUZ": 27, "FLOAT8_E5M2FNUZ": 28, "INT4": 29, "UINT4": 30,
    "INT2": 31, "UINT2": 32, "FLOAT4_E2M1FN": 33,
}  # fmt: skip

#: Kinds of TensorFlow's full types (full_type.proto).
_FULL_TYPES = {
    "UNSET": 0, "VAR": 1, "ANY": 2, "PRODUCT": 3, "NAMED": 4, "FOR_EACH": 20, "CALLABLE": 100, "TENSOR": 1000, "ARRAY": 1001,
    "OPTIONAL": 1002, "LITERAL": 1003, "ENCODED": 1004, "SHAPE_TENSOR": 1005, "BOOL": 200, "UINT8": 201, "UINT16": 202,
    "UINT32": 203, "UINT64": 204, "INT8": 205, "INT16": 206, "INT32": 207, "INT64": 208, "HALF": 209, "FLOAT": 210,
    "DOUBLE": 211, "BFLOAT16": 215, "COMPLEX64": 212, "COMPLEX128": 213, "STRING": 214, "DATASET": 10102, "RAGGED": 10103,
    "ITERATOR": 10104, "MUTEX_LOCK": 10202, "LEGACY_VARIANT": 10203,
}  # fmt: skip

_ENUMS = {
    "DataType": {
        "DT_INVALID": 0,
        **{f"DT_{name}": number for name, number in DATA_TYPES.items()},
        **{f"DT_{name}_REF": number + 100 for name, number in DATA_TYPES.items()},
    },
    "FullTypeId": {f"TFT_{name}": number for name, number in _FULL_TYPES.items()},
    "SaverDef.CheckpointFormatVersion": {"LEGACY": 0, "V1": 1, "V2": 2},
    "BundleHeaderProto.Endianness": {"LITTLE": 0, "BIG": 1},
}

#: Numbers of the scalar types in descriptors (descriptor.proto), and of the two kinds of types that have names.
_SCALARS = {
    "double": 1,
    "float": 2,
    "int64": 3,
    "uint64": 4,
    "int32": 5,
    "fixed64": 6,
    "fixed32": 7,
    "bool": 8,
    "string": 9,
    "bytes": 12,
    "uint32": 13,
}
_MESSAGE, _ENUM = 11, 14
_OPTIONAL, _REPEATED = 1, 3

_PACKAGE = "tensorflow"
_FIELD = re.compile(r"(?P<number>\d+) (?:(?P<oneof>\w+)\.)?(?P<name>\w+) (?P<type><[\w.]+,[\w.]+>|[\w.]+)(?P<repeated>\*?)")


@cache
def pool() -> Any:
    """The pool of descriptors that the classes live in."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    old = FileDescriptorProto(name="tensorproof/debug_info.proto", package=_PACKAGE, syntax="proto2")
    new = FileDescriptorProto(name="tensorproof/tensorflow.proto", package=_PACKAGE, syntax="proto3", dependency=[old.name])
    _add_messages(old, _OLD_MESSAGES)
    _add_messages(new, _MESSAGES)
    for name, numbers in _ENUMS.items():
        outer, _, inner = name.rpartition(".")
        scope = next(message for message in new.message_type if message.name == outer) if outer else new
        enum = scope.enum_type.add(name=inner)
        for value, number in numbers.items():
            enum.value.add(name=value, number=number)
    made: Any = DescriptorPool()
    for file in (old, new):
        made.Add(file)
    return made


@cache
def message_class(name: str) -> Any:
    """The class of a message, by its name in TensorFlow (`GraphDef`, `NodeDef.ExperimentalDebugInfo`)."""
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


def message_names() -> list[str]:
    """The messages of the table."""
    return [line.partition(":")[0] for line in (_OLD_MESSAGES + _MESSAGES).splitlines() if line]


def _add_messages(file: FileDescriptorProto, table: str) -> None:
    made: dict[str, DescriptorProto] = {}
    for line in table.strip().splitlines():
        name, _, fields = line.partition(": ")
        outer, _, inner = name.rpartition(".")
        made[name] = made[outer].nested_type.add(name=inner) if outer else file.message_type.add(name=inner)
        for match in _FIELD.finditer(fields):
            _add_field(made[name], name, match, packed=file.syntax == "proto2")


def _add_field(message: DescriptorProto, name: str, match: re.Match[str], *, packed: bool) -> None:
    type_name, label = match["type"], _REPEATED if match["repeated"] else _OPTIONAL
    if type_name.startswith("<"):
        # A map is a repeated message of a key and a value.
        entry = "".join(part.capitalize() for part in match["name"].split("_")) + "Entry"
        nested = message.nested_type.add(name=entry)
        nested.options.map_entry = True
        key, _, value = type_name[1:-1].partition(",")
        for number, part, its_type in ((1, "key", key), (2, "value", value)):
            nested.field.add(name=part, number=number, label=_OPTIONAL, **_typed(its_type))
        type_name, label = f"{name}.{entry}", _REPEATED
    field = message.field.add(name=match["name"], number=int(match["number"]), label=label, **_typed(type_name))
    if packed and match["repeated"] and field.type not in (_MESSAGE, _SCALARS["string"]):
        field.options.packed = True
    if match["oneof"]:
        if not message.oneof_decl:
            message.oneof_decl.add(name=match["oneof"])
        field.oneof_index = 0


def _typed(name: str) -> dict[str, Any]:
    if name in _SCALARS:
        return {"type": _SCALARS[name]}
    return {"type": _ENUM if name in _ENUMS else _MESSAGE, "type_name": f".{_PACKAGE}.{name}"}
